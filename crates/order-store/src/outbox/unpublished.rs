//! A transaction's events, until its last step writes them to the outbox.

use crate::ts::Ts;

/// A transaction's events, in the order in which they happened.
#[derive(Debug, Default)]
pub(crate) struct Unpublished(Vec<(Ts, String)>);

impl Unpublished {
    /// Adds an event: since when it waits, and its line.
    pub(crate) fn push(&mut self, at: Ts, line: String) {
        self.0.push((at, line));
    }

    /// The events, in their order.
    pub(super) fn into_lines(self) -> Vec<(Ts, String)> {
        self.0
    }
}
