//! What can happen to an order that exists.

use std::fmt;

use crate::OrderStatus;

/// An event that may move an order. Its creation isn't one of them, since there is no status before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderEvent {
    /// A payment was applied.
    Pay,
    /// The goods left.
    Ship,
    /// The goods arrived.
    Complete,
    /// The order was abandoned.
    Cancel,
}

impl OrderEvent {
    /// Every event.
    pub const ALL: [Self; 4] = [Self::Pay, Self::Ship, Self::Complete, Self::Cancel];

    /// The name in the history of an order.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Ship => "ship",
            Self::Complete => "complete",
            Self::Cancel => "cancel",
        }
    }

    /// The status this event leads to.
    pub const fn target(self) -> OrderStatus {
        match self {
            Self::Pay => OrderStatus::Paid,
            Self::Ship => OrderStatus::Shipped,
            Self::Complete => OrderStatus::Done,
            Self::Cancel => OrderStatus::Cancelled,
        }
    }
}

impl fmt::Display for OrderEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
