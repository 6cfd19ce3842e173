//! The only crate that says SQL.
//!
//! The conditional update decides: `UPDATE … WHERE status = expected`, and the rows it returns
//! say who won. Everything else here (claims, verdicts, history, exceptions) is written in the
//! same transaction. PostgreSQL and SQLite are a closed set of two backends behind one [`Store`].
//!
//! It deliberately knows no wire format, no broker and no HTTP. Enter at
//! [`Store::record_payments`] (the heart, see `record`) or [`Store::create_order`].

mod audit;
mod close;
mod conn;
pub mod crash;
mod dead_letters;
mod error;
mod exceptions;
mod gauges;
mod guards;
mod idempotency;
mod leases;
mod listing;
mod migrate;
mod moved;
mod operate;
mod orders;
mod outbox;
mod pay;
mod payment_exception;
mod payments;
mod pool;
mod reconcile;
mod record;
mod republish;
mod retention;
mod settle;
mod sql;
mod store;
mod transitions;
mod ts;

pub use audit::{Finding, Invariant};
pub use close::{Closed, Closing, Resolution, UnknownResolution};
pub use dead_letters::{
    DeadLetter, Discarded, LetterCursor, LetterState, NewDeadLetter, Replayed, UnknownLetterState,
};
pub use error::Error;
pub use exceptions::exception_id;
pub use gauges::Gauges;
pub use idempotency::{KEYS_KEPT, KeptAnswer, KeyClaim, KeyedRequest};
pub use leases::Lease;
pub use listing::{OrderCursor, OrderFilter, OrderPage};
pub use migrate::FileLock;
pub use moved::{Listener, Moved};
pub use operate::{Operated, Operation, RefusedAs};
pub use orders::{CreateOutcome, NewOrder, Order, PaidBy};
pub use outbox::{Marked, OutboxKey, PublishedTransition, Unpublished};
pub use payment_exception::{
    Closure, ExceptionCursor, ExceptionFilter, ExceptionState, PaymentException,
    UnknownExceptionState,
};
pub use payments::{Payment, PaymentCursor, PaymentFilter};
pub use pool::PoolGauges;
pub use reconcile::{
    DueCursor, DueOrder, DuePage, FindingKind, Run, RunCounts, RunCursor, RunFinding, RunStart,
    RunState, Slot, StartedBy, Step, Stepped, Told, UnknownRunWord,
};
pub use record::{Batch, PaymentFact};
pub use republish::{OutboxGauges, Republished};
pub use store::{Clock, DatabaseUrl, InvalidUrl, Store, StoreOptions};
pub use transitions::{HistoryCursor, HistoryItem, Outcome};

use std::fmt;
use std::str::FromStr;

/// Who is named in a history when the service itself acted.
pub const SELF_ACTOR: &str = "orderd";

/// Which way a fact or an operation came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A payment event from the broker.
    Event,
    /// An answer of the payment service.
    Reconciliation,
    /// A caller of the API.
    Api,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Event, Self::Reconciliation, Self::Api];

    /// The string on every wire and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Reconciliation => "reconciliation",
            Self::Api => "api",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A string that names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown source {0:?}")]
pub struct UnknownSource(String);

impl FromStr for Source {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|source| source.as_str() == text)
            .ok_or_else(|| UnknownSource(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
