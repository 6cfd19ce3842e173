//! The shapes of everything that is written for others: answers of the API, events, output of
//! commands.
//!
//! One type per shape, with its description in the OpenAPI document and its conversion from the
//! store's type. The API, the relay and the one-shot commands share them.

mod dead_letter;
mod exception;
mod orders;
mod run;
pub(crate) mod schemas;

pub(crate) use dead_letter::{DeadLetter, Replay};
pub(crate) use exception::Exception;
pub(crate) use orders::{HistoryItem, Order, Payment};
pub(crate) use run::Run;
