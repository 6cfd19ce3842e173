//! An exception on the wire: the same shape in answers and in events.

use order_store::PaymentException;
use serde::Serialize;

use crate::time_format::format;

/// The contract's Exception shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the wire, explained by the contract"
)]
pub struct Exception {
    pub id: String,
    pub verdict: &'static str,
    pub order_id: String,
    pub provider: String,
    pub transaction_id: String,
    pub kind: String,
    pub event_id: Option<String>,
    pub amount: i64,
    pub currency: String,
    pub expected_order_id: Option<String>,
    pub expected_amount: Option<i64>,
    pub expected_currency: Option<String>,
    pub occurred_at: String,
    pub pay_by: Option<String>,
    pub in_time: Option<bool>,
    pub state: &'static str,
    pub resolution: Option<String>,
    pub note: Option<String>,
    pub closed_by: Option<String>,
    pub opened_at: String,
    pub closed_at: Option<String>,
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
