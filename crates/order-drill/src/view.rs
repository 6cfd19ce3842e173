//! The shapes of the contract as the drill reads them; what it doesn't look at is left out.

use serde::Deserialize;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

/// An order.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are the contract's")]
pub struct OrderView {
    pub order_id: String,
    pub status: String,
    pub amount: u64,
    pub currency: String,
    pub version: u64,
    pub paid_by: Option<PaidBy>,
}

/// The payment that paid an order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "the fields are the contract's")]
pub struct PaidBy {
    pub provider: String,
    pub transaction_id: String,
}

/// A transition or a refusal.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are the contract's")]
pub struct HistoryItem {
    pub version: u64,
    pub from: Option<String>,
    pub to: Option<String>,
    pub event: String,
    pub outcome: String,
    pub source: String,
    pub reason: Option<String>,
    pub provider: Option<String>,
    pub transaction_id: Option<String>,
    pub at: String,
}

impl HistoryItem {
    pub(crate) fn is_applied(&self) -> bool {
        self.outcome == "applied"
    }

    pub(crate) fn paid_by(&self) -> Option<PaidBy> {
        Some(PaidBy {
            provider: self.provider.clone()?,
            transaction_id: self.transaction_id.clone()?,
        })
    }
}

/// A recorded payment.
#[derive(Debug, Clone, Deserialize)]
#[expect(missing_docs, reason = "the fields are the contract's")]
pub struct PaymentView {
    pub provider: String,
    pub transaction_id: String,
    pub kind: String,
    pub event_id: Option<String>,
    pub order_id: String,
    pub verdict: String,
    pub amount: u64,
    pub currency: String,
    pub source: String,
}

/// An exception.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ExceptionView {
    pub(crate) id: String,
    pub(crate) verdict: String,
    pub(crate) order_id: String,
    pub(crate) provider: String,
    pub(crate) transaction_id: String,
    pub(crate) kind: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    pub(crate) expected_order_id: Option<String>,
    pub(crate) expected_amount: Option<u64>,
    pub(crate) expected_currency: Option<String>,
    pub(crate) state: String,
}

/// A dead letter.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LetterView {
    pub(crate) id: serde_json::Value,
    pub(crate) stream: String,
    pub(crate) subject: String,
    pub(crate) body_base64: String,
    pub(crate) reason: String,
}
