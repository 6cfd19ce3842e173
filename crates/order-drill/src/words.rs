//! The contract's words as the drill writes and reads them.

/// Declares an enum whose variants each have a word: `ALL` in the order of declaration, `as_str` and `Display`.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub(crate) enum $name:ident {
            $($(#[$doc:meta])* $variant:ident => $word:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            pub(crate) const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            pub(crate) const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What a payment did to its order, or why a message did nothing; in the order of the report.
    pub(crate) enum Verdict {
        Applied => "APPLIED",
        SecondPayment => "SECOND_PAYMENT",
        PaidAfterCancel => "PAID_AFTER_CANCEL",
        AmountMismatch => "AMOUNT_MISMATCH",
        CurrencyMismatch => "CURRENCY_MISMATCH",
        WaitingForOrder => "WAITING_FOR_ORDER",
        AttemptFailed => "ATTEMPT_FAILED",
        Reversed => "REVERSED",
        Unsupported => "UNSUPPORTED",
        Duplicate => "DUPLICATE",
        ConflictingContent => "CONFLICTING_CONTENT",
        NotLive => "NOT_LIVE",
        /// Only in the metrics: the message isn't a payment.
        DeadLetter => "DEAD_LETTER",
    }
}

impl Verdict {
    /// Whether a payment with this verdict is recorded as a payment.
    pub(crate) fn is_stored(self) -> bool {
        !matches!(
            self,
            Self::Duplicate | Self::ConflictingContent | Self::NotLive | Self::DeadLetter
        )
    }

    /// Whether the order refused a recorded payment with this verdict; its history then has a refusal.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::SecondPayment
                | Self::PaidAfterCancel
                | Self::CurrencyMismatch
                | Self::AmountMismatch
        )
    }

    /// Whether this verdict opens an exception at once. A waiting payment opens one much later.
    pub(crate) fn demands_exception(self) -> bool {
        self.is_refusal()
            || matches!(
                self,
                Self::Reversed | Self::ConflictingContent | Self::NotLive
            )
    }
}

/// The event type without `payment.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Succeeded,
    Failed,
    Expired,
    Refunded,
    Reversed,
    /// A kind that the service doesn't know.
    PartiallyRefundedV2,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::Reversed => "reversed",
            Self::PartiallyRefundedV2 => "partially_refunded_v2",
        }
    }

    /// Whether money moved: a payment that can't be recorded then needs a person.
    pub(crate) fn moves_money(self) -> bool {
        matches!(self, Self::Succeeded | Self::Refunded | Self::Reversed)
    }
}

words! {
    /// The currencies of a drill: with two minor digits, without any, and some that look alike.
    pub(crate) enum Currency {
        Eur => "EUR",
        Usd => "USD",
        Jpy => "JPY",
        Cny => "CNY",
    }
}

impl Currency {
    /// A currency that isn't this one.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Eur => Self::Usd,
            Self::Usd => Self::Jpy,
            Self::Jpy => Self::Cny,
            Self::Cny => Self::Eur,
        }
    }
}
