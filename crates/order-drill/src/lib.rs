//! Throws the real world at a running service and checks, from outside, whether each payment counted once.
//!
//! It knows the contract (names, wire formats, verdicts, endpoints) and nothing of the service's code, so that it can't
//! repeat the service's mistakes. It is neither a benchmark nor an audit of the database. If asked to, it plays the payment
//! service too, through `order-payment-mock`.
//!
//! The way through: [`Plan::generate`] makes orders, messages and a ledger of what must come out from a seed. [`run`] throws
//! the plan, waits until nothing is left unacked, compares what the service says with the ledger, and returns a [`Report`];
//! [`throw`] and [`verify`] are its two halves. [`duel`] lets a run of the reconciliation race against payments.

mod api;
mod broker;
mod compare;
mod counters;
mod difference;
mod duel;
mod error;
mod events;
mod heal;
mod metrics;
mod ops;
mod options;
mod plan;
mod progress;
mod report;
mod run;
mod session;
mod throw;
mod truth;
mod verify;
mod view;
mod words;

pub use api::choose_tls;
pub use difference::{Difference, Differences};
pub use duel::{DuelOptions, Round, duel};
pub use error::Error;
pub use options::{Anomalies, Names, PaymentService, PlanOptions, RunOptions, prefix};
pub use plan::{Plan, Summary};
pub use progress::Progress;
pub use report::{Report, VerdictRow};
pub use run::{run, throw, verify};
pub use throw::Thrown;
