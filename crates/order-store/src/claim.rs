//! A success that is being judged, and a payment as a history names it.

use order_fsm::{Amount, Content, Currency, EventId, PaymentKey};

use crate::payments::{Payment, PaymentFact};
use crate::source::Source;
use crate::ts::Ts;

/// A success that this transaction owns: no other transaction can judge it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) key: &'a PaymentKey,
    pub(crate) event_id: Option<&'a EventId>,
    pub(crate) content: &'a Content,
    pub(crate) occurred_at: Ts,
    pub(crate) source: Source,
}

/// A payment as a history names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaymentRef<'a> {
    pub(crate) provider: &'a str,
    pub(crate) transaction_id: &'a str,
}

impl<'a> From<&'a PaymentKey> for PaymentRef<'a> {
    fn from(key: &'a PaymentKey) -> Self {
        Self {
            provider: key.provider.as_str(),
            transaction_id: key.transaction_id.as_str(),
        }
    }
}

/// A recorded payment, owned by the transaction that locked it.
impl<'a> From<&'a Payment> for Claim<'a> {
    fn from(payment: &'a Payment) -> Self {
        Self {
            key: &payment.key,
            event_id: payment.event_id.as_ref(),
            content: &payment.content,
            occurred_at: Ts(payment.occurred_at),
            source: payment.source,
        }
    }
}

impl<'a> From<&'a PaymentFact> for Claim<'a> {
    fn from(fact: &'a PaymentFact) -> Self {
        Self {
            key: &fact.key,
            event_id: fact.event_id.as_ref(),
            content: &fact.content,
            occurred_at: Ts::truncated(fact.occurred_at),
            source: fact.source,
        }
    }
}

impl Claim<'_> {
    pub(crate) fn order_id(&self) -> &str {
        self.content.order_id.as_str()
    }

    /// What it pays: the guard lets it pay only an order with this price.
    pub(crate) fn price(&self) -> (Amount, Currency) {
        (self.content.amount, self.content.currency)
    }
}
