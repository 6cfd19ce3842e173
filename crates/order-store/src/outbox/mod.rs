//! The outbox: what is to be published, and what became of it.
//!
//! A transaction that moves orders or opens exceptions writes down what there is to publish as its last
//! step (`write`), under the locks of its orders: a later version of an order gets a later place. One
//! holder of a lease reads the rows in their order (`page`), publishes their events, and deletes what the
//! broker has acknowledged (`conclude`). An event that can't be published now is set aside, with all that
//! waits for it (`aside`), so that it holds up nothing but its own order.
//!
//! What a version of this service without this table has left is carried over by `old`.

mod aside;
mod by_key;
mod conclude;
mod event;
mod fate;
mod front;
mod gauges;
mod line;
mod old;
mod page;
mod unpublished;
mod write;

pub use aside::AsidePlace;
pub use conclude::Concluded;
pub use event::{EventBody, OutboxEvent, OutboxKey};
pub use fate::{AsideKind, Fate};
pub(crate) use front::{Histories, insert_at_the_front};
pub use gauges::OutboxGauges;
pub use line::PublishedTransition;
pub(crate) use line::{UNNAMED, check_line, check_lines, exception_line, transition_line};
pub use old::CarriedOver;
#[cfg(test)]
pub(crate) use page::PageSize;
pub use page::{OutboxPage, OutboxPlace};
pub(crate) use unpublished::Unpublished;
pub(crate) use write::write;
