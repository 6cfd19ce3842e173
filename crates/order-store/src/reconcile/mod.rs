//! The store's part of the reconciliation: which orders are due, what becomes of them, and the
//! runs that asked.
//!
//! Nothing here asks the payment service: a run reads [`due orders`](crate::Store::due_orders), records the
//! answers as payment facts like any other, and then takes a [`Step`] with each order. Enter at
//! `step`, where unpaid orders are cancelled.

mod answers;
mod due;
mod next_question;
mod overdue;
mod pace;
mod runs;
mod schedule;
mod step;

pub use answers::{FindingKind, RecordedAnswer};
pub(crate) use due::{Check, insert_check};
pub use due::{DueCursor, DueOrder, DuePage, UnreadableDue};
pub use next_question::NextQuestion;
pub use pace::{QUESTIONS_CLOSED_MAX, Slot};
pub(crate) use runs::Found;
pub use runs::{Run, RunCounts, RunCursor, RunFinding, RunPage, RunStart, RunState, StartedBy};
pub(crate) use schedule::Schedule;
pub use step::{Step, Stepped};
