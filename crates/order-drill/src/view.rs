//! The shapes of the contract as the drill reads them, without the fields that it doesn't look at.

use serde::Deserialize;

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct OrderView {
    pub(crate) order_id: String,
    pub(crate) status: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    pub(crate) version: u64,
    pub(crate) paid_by: Option<PaidBy>,
}

/// The payment that paid an order.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct PaidBy {
    pub(crate) provider: Box<str>,
    pub(crate) transaction_id: Box<str>,
}

impl PaidBy {
    /// A payer as a text, for differences.
    pub(crate) fn name(paid_by: Option<&Self>) -> String {
        paid_by.map_or_else(
            || "null".to_owned(),
            |by| format!("{}/{}", by.provider, by.transaction_id),
        )
    }
}

/// A transition or a refusal. Its texts are boxed, since a big run keeps hundreds of thousands.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct HistoryItem {
    pub(crate) version: u64,
    pub(crate) from: Option<Box<str>>,
    pub(crate) to: Option<Box<str>>,
    pub(crate) event: Box<str>,
    pub(crate) outcome: Box<str>,
    pub(crate) source: Box<str>,
    pub(crate) reason: Option<Box<str>>,
    pub(crate) provider: Option<Box<str>>,
    pub(crate) transaction_id: Option<Box<str>>,
    pub(crate) at: Box<str>,
}

impl HistoryItem {
    pub(crate) fn is_applied(&self) -> bool {
        &*self.outcome == "applied"
    }

    pub(crate) fn paid_by(&self) -> Option<PaidBy> {
        Some(PaidBy {
            provider: self.provider.clone()?,
            transaction_id: self.transaction_id.clone()?,
        })
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PaymentView {
    pub(crate) provider: String,
    pub(crate) transaction_id: String,
    pub(crate) kind: String,
    pub(crate) event_id: Option<String>,
    pub(crate) order_id: String,
    pub(crate) verdict: String,
    pub(crate) amount: u64,
    pub(crate) currency: String,
    pub(crate) source: String,
}

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

/// A run of the reconciliation.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct RunView {
    pub(crate) state: String,
    pub(crate) dry_run: bool,
    pub(crate) asked: u64,
    pub(crate) healed: u64,
    pub(crate) cancelled: u64,
    pub(crate) raced: u64,
    pub(crate) findings: Vec<FindingView>,
}

/// What a run reports to a person.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FindingView {
    pub(crate) order_id: String,
    pub(crate) kind: String,
}
