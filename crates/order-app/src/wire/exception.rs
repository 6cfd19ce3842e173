//! An exception: the same shape in answers and in events.

use order_store::PaymentException;
use serde::Serialize;
use utoipa::ToSchema;

use super::schemas;
use crate::time_format::format;

/// A payment that needs a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentException)]
pub(crate) struct Exception {
    /// The digest of the values that make it unique.
    #[schema(value_type = schemas::Digest)]
    id: String,
    #[schema(value_type = schemas::Verdict)]
    verdict: &'static str,
    #[schema(value_type = schemas::Id)]
    order_id: String,
    #[schema(value_type = schemas::Provider)]
    provider: String,
    #[schema(value_type = schemas::Id)]
    transaction_id: String,
    kind: String,
    #[schema(value_type = Option<schemas::Id>, required)]
    event_id: Option<String>,
    #[schema(value_type = schemas::Amount)]
    amount: i64,
    #[schema(value_type = schemas::Currency)]
    currency: String,
    /// The order the payment was recorded for, or the order it was judged against.
    #[schema(value_type = Option<schemas::Id>, required)]
    expected_order_id: Option<String>,
    #[schema(value_type = Option<schemas::Amount>, required)]
    expected_amount: Option<i64>,
    #[schema(value_type = Option<schemas::Currency>, required)]
    expected_currency: Option<String>,
    #[schema(value_type = schemas::Time)]
    occurred_at: String,
    #[schema(value_type = Option<schemas::Time>, required)]
    pay_by: Option<String>,
    /// Whether the payment happened before `pay_by`; only for `PAID_AFTER_CANCEL`.
    #[schema(required)]
    in_time: Option<bool>,
    #[schema(value_type = schemas::ExceptionState)]
    state: &'static str,
    /// How it was closed; `settled` if its order was created later.
    #[schema(required)]
    resolution: Option<String>,
    #[schema(required)]
    note: Option<String>,
    #[schema(required)]
    closed_by: Option<String>,
    #[schema(value_type = schemas::Time)]
    opened_at: String,
    #[schema(value_type = Option<schemas::Time>, required)]
    closed_at: Option<String>,
}

impl From<PaymentException> for Exception {
    fn from(exception: PaymentException) -> Self {
        let in_time = exception.in_time();
        let closed_at = exception.closed.as_ref().map(|closed| format(closed.at));
        let state = if exception.closed.is_some() {
            "closed"
        } else {
            "open"
        };
        let (resolution, note, closed_by) = match exception.closed {
            Some(closed) => (Some(closed.resolution), closed.note, closed.by),
            None => (None, None, None),
        };
        Self {
            id: exception.id,
            verdict: exception.verdict.as_str(),
            order_id: exception.content.order_id.to_string(),
            provider: exception.key.provider.to_string(),
            transaction_id: exception.key.transaction_id.to_string(),
            kind: exception.key.kind.to_string(),
            event_id: exception.event_id.map(|id| id.to_string()),
            amount: exception.content.amount.minor_units(),
            currency: exception.content.currency.as_str().to_owned(),
            expected_order_id: exception.expected_order_id.map(|id| id.to_string()),
            expected_amount: exception
                .expected_amount
                .map(order_fsm::Amount::minor_units),
            expected_currency: exception
                .expected_currency
                .map(|currency| currency.as_str().to_owned()),
            occurred_at: format(exception.occurred_at),
            pay_by: exception.pay_by.map(format),
            in_time,
            state,
            resolution,
            note,
            closed_by,
            opened_at: format(exception.opened_at),
            closed_at,
        }
    }
}
