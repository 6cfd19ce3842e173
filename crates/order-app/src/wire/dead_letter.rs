//! Dead letters and their replay.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use order_fsm::Verdict;
use serde::Serialize;
use utoipa::ToSchema;

use super::schemas;
use crate::time_format::format;

/// A message that couldn't be processed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    /// The digest of stream, sequence and body.
    #[schema(value_type = schemas::Digest)]
    id: String,
    stream: String,
    subject: String,
    #[schema(minimum = 0)]
    sequence: i64,
    /// Each header with its values.
    #[schema(value_type = Object)]
    headers: serde_json::Value,
    /// The body, or the first 64 KiB of it.
    body_base64: String,
    #[schema(value_type = schemas::LetterReason)]
    reason: String,
    /// The field, and what is wrong with it.
    detail: String,
    #[schema(value_type = schemas::Time)]
    received_at: String,
    #[schema(value_type = schemas::LetterState)]
    state: &'static str,
    /// Why it was discarded.
    #[schema(required)]
    note: Option<String>,
}

impl From<order_store::DeadLetter> for DeadLetter {
    fn from(letter: order_store::DeadLetter) -> Self {
        Self {
            id: letter.id,
            stream: letter.stream,
            subject: letter.subject,
            sequence: letter.sequence,
            // This service wrote them as JSON.
            headers: serde_json::from_str(&letter.headers).unwrap_or_default(),
            body_base64: STANDARD.encode(&letter.body),
            reason: letter.reason,
            detail: letter.detail,
            received_at: format(letter.received_at),
            state: letter.state.as_str(),
            note: letter.note,
        }
    }
}

/// The result of a replay.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Replay {
    #[schema(value_type = schemas::Verdict)]
    verdict: &'static str,
    /// Whether it paid an order.
    applied: bool,
    /// For people.
    detail: String,
}

impl Replay {
    pub(crate) fn new(verdict: Verdict, dry_run: bool) -> Self {
        let detail = if dry_run {
            format!("the verdict would be {verdict}; all changes were rolled back")
        } else {
            format!("the verdict is {verdict}")
        };
        Self {
            verdict: verdict.as_str(),
            applied: verdict == Verdict::Applied,
            detail,
        }
    }
}
