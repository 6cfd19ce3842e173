//! What became of an event that was to be published.

use crate::words::words;

words! {
    /// Why an event is set aside.
    pub enum AsideKind, "blocked, too-large, unreadable or waits" {
        /// The broker refuses its subject.
        Blocked = "blocked",
        /// It is too large for the broker.
        TooLarge = "too-large",
        /// It can't be read.
        Unreadable = "unreadable",
        /// It waits for an earlier version of its order.
        Waits = "waits",
    }
}

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The broker has acknowledged it: it leaves the outbox.
    Published,
    /// It can't be published now; it waits apart from the others.
    SetAside {
        /// Why, for the service.
        kind: AsideKind,
        /// Under which name it is published.
        event: &'static str,
        /// Why, for people.
        why: String,
        /// Whether publishing it may have been tried.
        tried: bool,
    },
    /// It stays where it is.
    Kept,
}
