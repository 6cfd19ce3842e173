//! The statuses of an order.

use std::fmt;
use std::str::FromStr;

/// The status of an order: a past fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderStatus {
    /// Created; no payment has been applied.
    NotPaid,
    /// Exactly one payment has been applied.
    Paid,
    /// On its way to the customer.
    Shipped,
    /// Delivered; terminal.
    Done,
    /// Abandoned before any payment; terminal.
    Cancelled,
}

impl OrderStatus {
    /// Every status, in the sequence of an order's life.
    pub const ALL: [Self; 5] = [
        Self::NotPaid,
        Self::Paid,
        Self::Shipped,
        Self::Done,
        Self::Cancelled,
    ];

    /// The string on every wire and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPaid => "NOT_PAID",
            Self::Paid => "PAID",
            Self::Shipped => "SHIPPED",
            Self::Done => "DONE",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Whether no event can change this status.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Done | Self::Cancelled => true,
            Self::NotPaid | Self::Paid | Self::Shipped => false,
        }
    }
}

impl fmt::Display for OrderStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A string that isn't a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown order status {0:?}")]
pub struct UnknownStatus(String);

impl FromStr for OrderStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}
