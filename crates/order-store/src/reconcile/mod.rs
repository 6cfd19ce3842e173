//! The store's part of the reconciliation: which orders are due, what becomes of them, and the
//! runs that asked.
//!
//! Nothing here asks anybody: a run reads [`due orders`](crate::Store::due_orders), tells the
//! answers as payment facts like any other, and then takes a [`Step`] with each order. Enter at
//! `step`, where unpaid orders are cancelled.

mod answers;
mod due;
mod overdue;
mod pace;
mod runs;
mod schedule;
mod step;

pub use answers::{FindingKind, Told};
pub(crate) use due::millis;
pub use due::{DueCursor, DueOrder, DuePage};
pub use pace::Slot;
pub use runs::{
    Run, RunCounts, RunCursor, RunFinding, RunStart, RunState, StartedBy, UnknownRunWord,
};
pub(crate) use schedule::Schedule;
pub use step::{Step, Stepped};
