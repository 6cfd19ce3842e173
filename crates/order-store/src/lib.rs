//! The only crate with SQL.
//!
//! The conditional update decides: `UPDATE … WHERE status = expected`, and the rows it returns
//! say who won. Everything else here (claims, verdicts, history, exceptions) is written in the
//! same transaction. PostgreSQL and SQLite are a closed set of two backends behind one [`Store`].
//!
//! It deliberately doesn't know wire formats, the broker or HTTP. Enter at
//! [`Store::record_payments`] (the heart, see `record`) or [`Store::create_order`].

mod audit;
mod call;
mod claim;
mod close;
mod conn;
pub mod crash;
mod create;
mod dead_letters;
mod digest;
mod error;
mod every_row;
mod exceptions;
mod file_fitness;
mod file_lock;
mod fitness;
mod gauges;
mod get_order;
mod gets;
mod guards;
mod idempotency;
mod leases;
mod listing;
mod migrate;
mod moved;
mod open_file;
mod operate;
mod orders;
mod outbox;
mod page;
mod pay;
mod payment_exception;
mod payments;
mod pool;
mod recheck;
mod reconcile;
mod record;
mod replay;
mod republish;
mod retention;
mod rows;
mod run;
mod scope;
mod sessions;
mod settle;
mod source;
mod sql;
mod starved;
mod store;
mod text;
mod transitions;
mod ts;
mod tx;
mod unreadable;
mod waiting;
mod words;
mod write_probe;
mod writes;

pub use audit::{Finding, Invariant};
pub use close::{Closed, Closing, Resolution};
pub use create::{CreateOutcome, NewOrder};
pub use dead_letters::{DeadLetter, LetterCursor, LetterPage, LetterState, NewDeadLetter};
pub use error::{Error, FileMoved, HeldFact, Unfit, WriteRefusal};
pub use exceptions::exception_id;
pub use file_lock::FileLock;
pub use gauges::{Gauges, OPEN_COUNTED_MAX};
pub use idempotency::{KEYS_KEPT, KeptAnswer, KeyClaim, KeyedRequest};
pub use leases::Lease;
pub use listing::{OrderCursor, OrderFilter, OrderPage};
pub use moved::{Listener, Moved};
pub use operate::{Operated, Operation, RefusedAs};
pub use orders::{Order, PaidBy};
pub use outbox::{
    AsideKind, AsidePlace, CarriedOver, Concluded, EventBody, Fate, OutboxEvent, OutboxGauges,
    OutboxKey, OutboxPage, OutboxPlace, PublishedTransition,
};
pub use page::{Listed, Page, Place};
pub use payment_exception::{
    Closure, ExceptionCursor, ExceptionFilter, ExceptionPage, ExceptionState, PaymentException,
};
pub use payments::{Payment, PaymentCursor, PaymentFact, PaymentFilter, PaymentPage};
pub use pool::PoolGauges;
pub use reconcile::{
    DueCursor, DueOrder, DuePage, FindingKind, NextQuestion, QUESTIONS_CLOSED_MAX, RecordedAnswer,
    Run, RunCounts, RunCursor, RunFinding, RunPage, RunStart, RunState, Slot, StartedBy, Step,
    Stepped, UnreadableDue,
};
pub use record::{Batch, Recorded};
pub use replay::{Discarded, Replayed};
pub use republish::Republished;
pub use scope::Scope;
pub use source::{SELF_ACTOR, Source};
pub use starved::Starved;
pub use store::{Clock, DatabaseUrl, InvalidUrl, Store, StoreOptions};
pub use transitions::{HistoryCursor, HistoryItem, HistoryPage, Outcome};
pub use waiting::{WaitingKey, WaitingRange};
pub use words::UnknownWord;

#[cfg(test)]
mod tests;
