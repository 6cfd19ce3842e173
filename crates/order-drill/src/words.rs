//! The contract's words as the drill writes and reads them.

use std::fmt;

/// What a payment did to its order, or why a message did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// It paid the order.
    Applied,
    /// The payment was known, with the same content.
    Duplicate,
    /// The payment was known, with other content.
    ConflictingContent,
    /// Test money, or real money at a test service.
    NotLive,
    /// A failed or expired attempt.
    AttemptFailed,
    /// A refund or a reversal.
    Reversed,
    /// A kind the service knows nothing about.
    Unsupported,
    /// Its order doesn't exist (yet).
    WaitingForOrder,
    /// The order was paid already.
    SecondPayment,
    /// The order was cancelled already.
    PaidAfterCancel,
    /// Money of another currency.
    CurrencyMismatch,
    /// Another amount than the order's.
    AmountMismatch,
    /// Not understood; a verdict in the metrics only.
    DeadLetter,
}

impl Verdict {
    /// All verdicts, in the order the report prints them.
    pub const ALL: [Self; 13] = [
        Self::Applied,
        Self::SecondPayment,
        Self::PaidAfterCancel,
        Self::AmountMismatch,
        Self::CurrencyMismatch,
        Self::WaitingForOrder,
        Self::AttemptFailed,
        Self::Reversed,
        Self::Unsupported,
        Self::Duplicate,
        Self::ConflictingContent,
        Self::NotLive,
        Self::DeadLetter,
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "APPLIED",
            Self::Duplicate => "DUPLICATE",
            Self::ConflictingContent => "CONFLICTING_CONTENT",
            Self::NotLive => "NOT_LIVE",
            Self::AttemptFailed => "ATTEMPT_FAILED",
            Self::Reversed => "REVERSED",
            Self::Unsupported => "UNSUPPORTED",
            Self::WaitingForOrder => "WAITING_FOR_ORDER",
            Self::SecondPayment => "SECOND_PAYMENT",
            Self::PaidAfterCancel => "PAID_AFTER_CANCEL",
            Self::CurrencyMismatch => "CURRENCY_MISMATCH",
            Self::AmountMismatch => "AMOUNT_MISMATCH",
            Self::DeadLetter => "DEAD_LETTER",
        }
    }

    /// Whether a payment with this verdict is recorded as a payment.
    pub fn is_stored(self) -> bool {
        !matches!(
            self,
            Self::Duplicate | Self::ConflictingContent | Self::NotLive | Self::DeadLetter
        )
    }

    /// Whether a recorded payment with this verdict is refused by its order, which the history tells.
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::SecondPayment
                | Self::PaidAfterCancel
                | Self::CurrencyMismatch
                | Self::AmountMismatch
        )
    }

    /// Whether this verdict opens an exception at once. A waiting payment opens one much later.
    pub fn demands_exception(self) -> bool {
        self.is_refusal()
            || matches!(
                self,
                Self::Reversed | Self::ConflictingContent | Self::NotLive
            )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The statuses an order of a drill can end in; it ships nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Nobody paid it.
    NotPaid,
    /// Exactly one payment paid it.
    Paid,
    /// It was cancelled before a payment came.
    Cancelled,
}

impl Status {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotPaid => "NOT_PAID",
            Self::Paid => "PAID",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// The event type without `payment.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The money is there.
    Succeeded,
    /// An attempt failed.
    Failed,
    /// An attempt ran out of time.
    Expired,
    /// Money was given back.
    Refunded,
    /// Money was taken back.
    Reversed,
    /// A kind invented after the service was written.
    PartiallyRefundedV2,
}

impl Kind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::Reversed => "reversed",
            Self::PartiallyRefundedV2 => "partially_refunded_v2",
        }
    }

    /// Whether it speaks of money that moved, so that what can't be recorded still needs a person.
    pub fn moves_money(self) -> bool {
        matches!(self, Self::Succeeded | Self::Refunded | Self::Reversed)
    }
}

/// The currencies of a drill: with two, with no minor digits, and some that look alike to a careless eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Currency {
    /// Euro.
    Eur,
    /// US dollar.
    Usd,
    /// Yen, without minor digits.
    Jpy,
    /// Renminbi.
    Cny,
}

impl Currency {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Eur, Self::Usd, Self::Jpy, Self::Cny];

    /// The ISO 4217 code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eur => "EUR",
            Self::Usd => "USD",
            Self::Jpy => "JPY",
            Self::Cny => "CNY",
        }
    }

    /// A currency that isn't this one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Eur => Self::Usd,
            Self::Usd => Self::Jpy,
            Self::Jpy => Self::Cny,
            Self::Cny => Self::Eur,
        }
    }
}
