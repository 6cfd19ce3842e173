//! The shapes of people's work: exceptions, dead letters, replays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use order_fsm::Verdict;
use serde::Serialize;
use utoipa::ToSchema;

use super::schemas;
use crate::exception_wire;
use crate::time_format::format;

/// Something about a payment that needs a person.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Exception(exception_wire::Exception);

impl From<order_store::PaymentException> for Exception {
    fn from(exception: order_store::PaymentException) -> Self {
        Self(exception.into())
    }
}

/// The shape is shared with the events, which know nothing of the document: it is said here once
/// more, and a test holds both together.
#[derive(ToSchema)]
#[schema(as = PaymentException)]
#[expect(dead_code, reason = "only there to be described")]
struct Described {
    /// The digest of what makes it unique.
    #[schema(value_type = schemas::Digest)]
    id: String,
    #[schema(value_type = schemas::Verdict)]
    verdict: String,
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
    /// Whether it was paid before `pay_by`; only for `PAID_AFTER_CANCEL`.
    #[schema(required)]
    in_time: Option<bool>,
    #[schema(value_type = schemas::ExceptionState)]
    state: String,
    /// How it was closed; `settled` if its order appeared.
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

impl utoipa::PartialSchema for Exception {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        Described::schema()
    }
}

impl ToSchema for Exception {
    fn name() -> std::borrow::Cow<'static, str> {
        "PaymentException".into()
    }

    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        Described::schemas(schemas);
    }
}

/// A message that nobody understood.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    /// The digest of stream, sequence and body.
    #[schema(value_type = schemas::Digest)]
    id: String,
    stream: String,
    subject: String,
    #[schema(minimum = 0)]
    sequence: i64,
    /// Each with its values.
    #[schema(value_type = Object)]
    headers: serde_json::Value,
    /// The body, or the first 64 KiB of it.
    body_base64: String,
    #[schema(value_type = schemas::LetterReason)]
    reason: String,
    /// Which field and why.
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
            // Written as JSON by this service.
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

/// What a replayed dead letter did.
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
            format!("would be {verdict}; nothing was kept")
        } else {
            format!("is {verdict}")
        };
        Self {
            verdict: verdict.as_str(),
            applied: verdict == Verdict::Applied,
            detail,
        }
    }
}
