//! The facts of a payment, and the contract's table of verdicts.

use std::fmt;
use std::str::FromStr;

use crate::{Amount, Currency, OrderId, OrderStatus, Provider, TransactionId};

/// What happened to a payment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaymentKind {
    /// The money was taken.
    Succeeded,
    /// An attempt failed.
    Failed,
    /// An attempt ran out of time.
    Expired,
    /// The money was refunded, in whole or in part.
    Refunded,
    /// The payment was reversed by the payer or a bank.
    Reversed,
    /// A kind this service doesn't act on.
    Other(OtherKind),
}

/// The name of a kind outside the list: 1 to 32 of `a-z 0-9 . _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherKind(String);

/// A text that can't be a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 32 of a-z 0-9 . _ -")]
pub struct InvalidKind;

impl PaymentKind {
    /// The event type without `payment.`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::Reversed => "reversed",
            Self::Other(OtherKind(name)) => name,
        }
    }

    /// Whether money moved. If so, a payment that can't be recorded needs a person.
    pub const fn moves_money(&self) -> bool {
        match self {
            Self::Succeeded | Self::Refunded | Self::Reversed => true,
            Self::Failed | Self::Expired | Self::Other(_) => false,
        }
    }

    /// The verdict that follows from the kind alone; `None` for a success, which is judged
    /// against its order.
    pub const fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Succeeded => None,
            Self::Failed | Self::Expired => Some(Verdict::AttemptFailed),
            Self::Refunded | Self::Reversed => Some(Verdict::Reversed),
            Self::Other(_) => Some(Verdict::Unsupported),
        }
    }
}

impl FromStr for PaymentKind {
    type Err = InvalidKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "succeeded" => Ok(Self::Succeeded),
            "failed" => Ok(Self::Failed),
            "expired" => Ok(Self::Expired),
            "refunded" => Ok(Self::Refunded),
            "reversed" => Ok(Self::Reversed),
            _ => {
                let allowed = |b: u8| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-')
                };
                if (1..=32).contains(&text.len()) && text.bytes().all(allowed) {
                    Ok(Self::Other(OtherKind(text.to_owned())))
                } else {
                    Err(InvalidKind)
                }
            }
        }
    }
}

impl fmt::Display for PaymentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The identity of a payment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaymentKey {
    /// The payment provider.
    pub provider: Provider,
    /// The provider's id of the transaction.
    pub transaction_id: TransactionId,
    /// The kind; a failure and a success of one transaction are two payments.
    pub kind: PaymentKind,
}

/// What two deliveries of one payment must agree on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content {
    /// The order that the payment names.
    pub order_id: OrderId,
    /// The amount paid.
    pub amount: Amount,
    /// The currency of the amount.
    pub currency: Currency,
}

/// A delivered payment, reduced to what its verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The kind.
    pub kind: PaymentKind,
    /// Whether it is real money.
    pub livemode: bool,
    /// The order and the money.
    pub content: Content,
}

/// An order, reduced to what a verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderFacts {
    /// Its status.
    pub status: OrderStatus,
    /// The amount due.
    pub amount: Amount,
    /// The currency of the amount.
    pub currency: Currency,
}

/// What a payment did to its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The live mode of the payment isn't the service's.
    NotLive,
    /// The payment was delivered before with the same content.
    Duplicate,
    /// The payment was delivered before with another order, amount or currency.
    ConflictingContent,
    /// An attempt failed or expired; no money moved.
    AttemptFailed,
    /// The payment was refunded or reversed.
    Reversed,
    /// A kind this service doesn't act on.
    Unsupported,
    /// The order doesn't exist yet.
    WaitingForOrder,
    /// Another payment paid the order before.
    SecondPayment,
    /// The order had been cancelled.
    PaidAfterCancel,
    /// The currency isn't the order's.
    CurrencyMismatch,
    /// The amount isn't the order's.
    AmountMismatch,
    /// It paid the order.
    Applied,
}

impl Verdict {
    /// Every verdict, in the order of the contract's table.
    pub const ALL: [Self; 12] = [
        Self::NotLive,
        Self::Duplicate,
        Self::ConflictingContent,
        Self::AttemptFailed,
        Self::Reversed,
        Self::Unsupported,
        Self::WaitingForOrder,
        Self::SecondPayment,
        Self::PaidAfterCancel,
        Self::CurrencyMismatch,
        Self::AmountMismatch,
        Self::Applied,
    ];

    /// The string on every wire and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotLive => "NOT_LIVE",
            Self::Duplicate => "DUPLICATE",
            Self::ConflictingContent => "CONFLICTING_CONTENT",
            Self::AttemptFailed => "ATTEMPT_FAILED",
            Self::Reversed => "REVERSED",
            Self::Unsupported => "UNSUPPORTED",
            Self::WaitingForOrder => "WAITING_FOR_ORDER",
            Self::SecondPayment => "SECOND_PAYMENT",
            Self::PaidAfterCancel => "PAID_AFTER_CANCEL",
            Self::CurrencyMismatch => "CURRENCY_MISMATCH",
            Self::AmountMismatch => "AMOUNT_MISMATCH",
            Self::Applied => "APPLIED",
        }
    }

    /// Whether a payment with this verdict is recorded. Otherwise it is only counted or opens an
    /// exception.
    pub const fn is_recorded(self) -> bool {
        match self {
            Self::NotLive | Self::Duplicate | Self::ConflictingContent => false,
            Self::AttemptFailed
            | Self::Reversed
            | Self::Unsupported
            | Self::WaitingForOrder
            | Self::SecondPayment
            | Self::PaidAfterCancel
            | Self::CurrencyMismatch
            | Self::AmountMismatch
            | Self::Applied => true,
        }
    }

    /// Whether a payment of this kind with this verdict opens an exception at once. A waiting
    /// payment opens one later, when it has waited too long.
    pub const fn opens_exception(self, kind: &PaymentKind) -> bool {
        match self {
            Self::NotLive | Self::ConflictingContent => kind.moves_money(),
            Self::Reversed
            | Self::SecondPayment
            | Self::PaidAfterCancel
            | Self::CurrencyMismatch
            | Self::AmountMismatch => true,
            Self::Duplicate
            | Self::AttemptFailed
            | Self::Unsupported
            | Self::WaitingForOrder
            | Self::Applied => false,
        }
    }

    /// Whether an exception can have this verdict: at once, or after waiting too long.
    pub fn can_be_exception(self) -> bool {
        self == Self::WaitingForOrder || self.opens_exception(&PaymentKind::Succeeded)
    }

    /// Whether an existing order refused the success; its history then has a refusal.
    pub const fn is_refusal(self) -> bool {
        match self {
            Self::SecondPayment
            | Self::PaidAfterCancel
            | Self::CurrencyMismatch
            | Self::AmountMismatch => true,
            Self::NotLive
            | Self::Duplicate
            | Self::ConflictingContent
            | Self::AttemptFailed
            | Self::Reversed
            | Self::Unsupported
            | Self::WaitingForOrder
            | Self::Applied => false,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A string that isn't a verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown verdict {0:?}")]
pub struct UnknownVerdict(String);

impl FromStr for Verdict {
    type Err = UnknownVerdict;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.as_str() == text)
            .ok_or_else(|| UnknownVerdict(text.to_owned()))
    }
}

/// Judges a payment by the contract's table: the first row that matches decides.
///
/// `live` is the service's setting, `known` the content recorded under the same key, `order` the
/// locked order.
pub fn judge(
    live: bool,
    known: Option<&Content>,
    order: Option<&OrderFacts>,
    fact: &Fact,
) -> Verdict {
    if fact.livemode != live {
        return Verdict::NotLive;
    }
    if let Some(recorded) = known {
        return if *recorded == fact.content {
            Verdict::Duplicate
        } else {
            Verdict::ConflictingContent
        };
    }
    if let Some(verdict) = fact.kind.verdict() {
        return verdict;
    }
    let Some(order) = order else {
        return Verdict::WaitingForOrder;
    };
    match order.status {
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Done => Verdict::SecondPayment,
        OrderStatus::Cancelled => Verdict::PaidAfterCancel,
        OrderStatus::NotPaid if order.currency != fact.content.currency => {
            Verdict::CurrencyMismatch
        }
        OrderStatus::NotPaid if order.amount != fact.content.amount => Verdict::AmountMismatch,
        OrderStatus::NotPaid => Verdict::Applied,
    }
}
