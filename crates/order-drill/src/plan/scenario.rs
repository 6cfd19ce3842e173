//! What can be played, and how often each is.

use super::draft::share_of;
use crate::PlanOptions;

/// A story about one or two orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// One success, perhaps after failed attempts.
    Paid,
    /// No success.
    Unpaid,
    /// A success that nobody publishes.
    Lost,
    /// A second success that nobody publishes.
    LostSecondPayment,
    /// A success with wrong money that nobody publishes.
    LostMismatch,
    /// A refund that nobody publishes.
    LostRefund,
    /// A success that happens after the order was cancelled, and that nobody publishes.
    LostAfterCancel,
    /// Two or three different successes for one order.
    SecondPayment,
    /// One minor unit more or less, perhaps with a right payment too.
    AmountMismatch,
    /// Another currency, perhaps with a right payment too.
    CurrencyMismatch,
    /// One payment told with two contents.
    Conflict,
    /// A success, and a refund or reversal before or after it.
    Reversal,
    /// A kind that nobody knows.
    Unsupported,
    /// Test money.
    NotLive,
    /// A payment for an order that is never created.
    NeverCreated,
    /// A payment and a cancelling at the same moment.
    CancelRace,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Paid,
        Self::Unpaid,
        Self::Lost,
        Self::LostSecondPayment,
        Self::LostMismatch,
        Self::LostRefund,
        Self::LostAfterCancel,
        Self::SecondPayment,
        Self::AmountMismatch,
        Self::CurrencyMismatch,
        Self::Conflict,
        Self::Reversal,
        Self::Unsupported,
        Self::NotLive,
        Self::NeverCreated,
        Self::CancelRace,
    ];

    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Unpaid => "unpaid",
            Self::Lost => "lost",
            Self::LostSecondPayment => "lost second payment",
            Self::LostMismatch => "lost mismatch",
            Self::LostRefund => "lost refund",
            Self::LostAfterCancel => "lost after cancel",
            Self::SecondPayment => "second payment",
            Self::AmountMismatch => "amount mismatch",
            Self::CurrencyMismatch => "currency mismatch",
            Self::Conflict => "conflicting content",
            Self::Reversal => "refund or reversal",
            Self::Unsupported => "unsupported kind",
            Self::NotLive => "not live",
            Self::NeverCreated => "never created",
            Self::CancelRace => "cancel race",
        }
    }

    /// As many of each as the options ask for.
    pub(super) fn cast(options: &PlanOptions) -> Vec<Self> {
        let unpaid = share_of(options.orders, options.unpaid).min(options.orders);
        let lost = share_of(options.orders - unpaid, options.lose).min(options.orders - unpaid);
        let anomalies = options.anomalies;
        let mut cast = Vec::with_capacity(options.orders as usize);
        for scenario in Self::ALL {
            let count = match scenario {
                Self::Paid => options.orders - unpaid - lost,
                Self::Unpaid => unpaid,
                Self::Lost => lost,
                Self::LostSecondPayment
                | Self::LostMismatch
                | Self::LostRefund
                | Self::LostAfterCancel => options.lost_anomalies,
                Self::SecondPayment => anomalies.second_payments,
                Self::AmountMismatch => anomalies.amount_mismatches,
                Self::CurrencyMismatch => anomalies.currency_mismatches,
                Self::Conflict => anomalies.conflicts,
                Self::Reversal => anomalies.reversals,
                Self::Unsupported => anomalies.unsupported,
                Self::NotLive => anomalies.not_live,
                Self::NeverCreated => anomalies.never_created,
                Self::CancelRace => options.cancels,
            };
            cast.extend(std::iter::repeat_n(scenario, count as usize));
        }
        cast
    }
}
