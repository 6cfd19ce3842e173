//! Orders, their history and their payments.

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas::{
    Amount, Currency, HistoryEvent, Id, OrderStatus, Provider, Source, Time, Verdict,
};
use crate::time_format::format;

/// An order.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
pub(crate) struct Order {
    #[schema(value_type = Id)]
    order_id: String,
    #[schema(value_type = OrderStatus)]
    status: &'static str,
    /// The amount due.
    #[schema(value_type = Amount)]
    amount: i64,
    #[schema(value_type = Currency)]
    currency: String,
    /// The number of its transitions, including the creation; its entity tag.
    #[schema(minimum = 1)]
    version: i64,
    /// The payment deadline.
    #[schema(value_type = Time)]
    pay_by: String,
    #[schema(value_type = Time)]
    created_at: String,
    /// When its status last changed.
    #[schema(value_type = Time)]
    updated_at: String,
    /// The payment that paid it.
    #[schema(required)]
    paid_by: Option<PaidBy>,
}

/// The payment that paid an order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaidBy {
    #[schema(value_type = Provider)]
    provider: String,
    #[schema(value_type = Id)]
    transaction_id: String,
}

/// A transition of an order, or a refused one.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct HistoryItem {
    /// The version it led to; for a refusal, the version at that time.
    #[schema(minimum = 1)]
    version: i64,
    /// The status before; null for the creation and for refusals.
    #[schema(value_type = Option<OrderStatus>, required)]
    from: Option<&'static str>,
    /// The status after; null for refusals.
    #[schema(value_type = Option<OrderStatus>, required)]
    to: Option<&'static str>,
    #[schema(value_type = HistoryEvent)]
    event: String,
    outcome: Outcome,
    #[schema(value_type = Source)]
    source: &'static str,
    /// The caller's name, or `orderd`.
    actor: String,
    /// The given reason; for a refusal, a problem's slug or a payment's verdict.
    #[schema(required)]
    reason: Option<String>,
    /// The provider of the payment that caused it.
    #[schema(value_type = Option<Provider>, required)]
    provider: Option<String>,
    /// The transaction of the payment that caused it.
    #[schema(value_type = Option<Id>, required)]
    transaction_id: Option<String>,
    #[schema(value_type = Time)]
    at: String,
}

/// Whether the transition was applied.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// It was applied.
    Applied,
    /// It was refused.
    Refused,
}

/// A recorded payment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Payment {
    #[schema(value_type = Provider)]
    provider: String,
    #[schema(value_type = Id)]
    transaction_id: String,
    /// The event type without `payment.`.
    #[schema(
        pattern = "^[a-z0-9._-]{1,32}$",
        examples("succeeded", "failed", "refunded")
    )]
    kind: String,
    /// The id of the event that first reported it; null if a reconciliation did.
    #[schema(value_type = Option<Id>, required)]
    event_id: Option<String>,
    #[schema(value_type = Id)]
    order_id: String,
    #[schema(value_type = Verdict)]
    verdict: &'static str,
    #[schema(value_type = Amount)]
    amount: i64,
    #[schema(value_type = Currency)]
    currency: String,
    /// When it happened, as reported.
    #[schema(value_type = Time)]
    occurred_at: String,
    /// When it was recorded.
    #[schema(value_type = Time)]
    received_at: String,
    #[schema(value_type = Source)]
    source: &'static str,
}

impl From<order_store::Order> for Order {
    fn from(order: order_store::Order) -> Self {
        Self {
            order_id: order.order_id.to_string(),
            status: order.status.as_str(),
            amount: order.amount.minor_units(),
            currency: order.currency.as_str().to_owned(),
            version: order.version,
            pay_by: format(order.pay_by),
            created_at: format(order.created_at),
            updated_at: format(order.updated_at),
            paid_by: order.paid_by.map(|paid_by| PaidBy {
                provider: paid_by.provider.to_string(),
                transaction_id: paid_by.transaction_id.to_string(),
            }),
        }
    }
}

impl From<order_store::HistoryItem> for HistoryItem {
    fn from(item: order_store::HistoryItem) -> Self {
        Self {
            version: item.version,
            from: item.from.map(order_fsm::OrderStatus::as_str),
            to: item.to.map(order_fsm::OrderStatus::as_str),
            event: item.event,
            outcome: match item.outcome {
                order_store::Outcome::Applied => Outcome::Applied,
                order_store::Outcome::Refused => Outcome::Refused,
            },
            source: item.source.as_str(),
            actor: item.actor,
            reason: item.reason,
            provider: item.provider.map(|provider| provider.to_string()),
            transaction_id: item.transaction_id.map(|id| id.to_string()),
            at: format(item.at),
        }
    }
}

impl HistoryItem {
    /// What happened, for people.
    pub(crate) fn sentence(&self) -> String {
        let Self { actor, at, .. } = self;
        let reason = self
            .reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(": {reason}"));
        let (from, to) = (self.from.unwrap_or("nothing"), self.to.unwrap_or("nothing"));
        format!("{actor} moved it from {from} to {to} at {at}{reason}")
    }
}

impl From<order_store::Payment> for Payment {
    fn from(payment: order_store::Payment) -> Self {
        Self {
            provider: payment.key.provider.to_string(),
            transaction_id: payment.key.transaction_id.to_string(),
            kind: payment.key.kind.to_string(),
            event_id: payment.event_id.map(|id| id.to_string()),
            order_id: payment.content.order_id.to_string(),
            verdict: payment.verdict.as_str(),
            amount: payment.content.amount.minor_units(),
            currency: payment.content.currency.as_str().to_owned(),
            occurred_at: format(payment.occurred_at),
            received_at: format(payment.received_at),
            source: payment.source.as_str(),
        }
    }
}
