//! Throws the real world at a running service and says, from outside, whether each payment counted once.
//!
//! It knows the contract (names, wire formats, verdicts, endpoints) and nothing of the service's code, so that a mistake
//! in the service can't repeat itself here. What it isn't: a benchmark, or an auditor of the database. The one thing it plays
//! itself is the payment service ([`payment_service`]), which the service asks and nobody else has.
//!
//! The way through: [`Plan::generate`] makes, from a seed, orders, messages and a [`Ledger`] of what must come out; the
//! [`Session`] throws the plan ([`Session::throw`]), waits until nothing is left unacked ([`Session::settle`]) and compares
//! what the service says with the ledger ([`Session::verify`]). [`run`] does all of it and answers with a [`Report`].

mod api;
mod broker;
mod compare;
mod counters;
mod difference;
mod duel;
mod error;
mod events;
mod heal;
mod ledger;
mod metrics;
mod ops;
mod options;
pub mod payment_service;
mod plan;
mod progress;
mod report;
mod session;
mod throw;
mod view;
mod words;

pub use api::{Api, choose_tls};
pub use broker::{Backlog, Broker};
pub use compare::{Comparison, Healed, Judged, Seen, judge};
pub use counters::{CounterRun, compare_counters};
pub use difference::{Difference, Differences};
pub use duel::{Round, RunFigures, duel};
pub use error::Error;
pub use ledger::{Case, ExpectedException, Fate, Ledger, Outcome, Recorded, Tally};
pub use metrics::Metrics;
pub use options::{Anomalies, Names, PaymentService, PlanOptions, RunOptions};
pub use plan::{Fact, Fault, Message, Order, Plan, Scenario, Step};
pub use progress::{Phase, Progress};
pub use report::{Report, VerdictRow};
pub use session::{Session, run, throw, verify};
pub use throw::Thrown;
pub use view::{HistoryItem, OrderView, PaidBy, PaymentView};
pub use words::{Currency, Kind, Status, Verdict};
