//! Problems: the closed list of what a caller can be told instead of an answer (RFC 9457).
//!
//! One row per kind, served from here and documented by `problem_docs`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::error::FieldError;
use super::wire::HistoryItem;

/// The media type of every error.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// A kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    InvalidRequest,
    Unauthenticated,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    OrderExists,
    IllegalTransition,
    PaymentPending,
    PaymentRecorded,
    PaymentStateUnknown,
    AlreadyClosed,
    AlreadyRunning,
    IdempotencyKeyInUse,
    PreconditionFailed,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    RateLimited,
    Internal,
    Unavailable,
}

/// What all problems of a kind share.
pub(crate) struct Row {
    pub(crate) status: StatusCode,
    pub(crate) slug: &'static str,
    pub(crate) title: &'static str,
}

impl Kind {
    /// Every kind.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 20] = [
        Self::InvalidRequest,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::OrderExists,
        Self::IllegalTransition,
        Self::PaymentPending,
        Self::PaymentRecorded,
        Self::PaymentStateUnknown,
        Self::AlreadyClosed,
        Self::AlreadyRunning,
        Self::IdempotencyKeyInUse,
        Self::PreconditionFailed,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::IdempotencyKeyReused,
        Self::RateLimited,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The table.
    pub(crate) const fn row(self) -> Row {
        let (status, slug, title) = match self {
            Self::InvalidRequest => (400, "invalid-request", "The request is not valid"),
            Self::Unauthenticated => (401, "unauthenticated", "Nobody knows who asks"),
            Self::Forbidden => (403, "forbidden", "The token is not good for this"),
            Self::NotFound => (404, "not-found", "There is no such thing"),
            Self::MethodNotAllowed => (405, "method-not-allowed", "The path has no such method"),
            Self::OrderExists => (409, "order-exists", "Another order has this id"),
            Self::IllegalTransition => {
                (409, "illegal-transition", "The order can't take this step")
            }
            Self::PaymentPending => (409, "payment-pending", "A payment is on its way"),
            Self::PaymentStateUnknown => (
                409,
                "payment-state-unknown",
                "Nobody knows whether the order was paid",
            ),
            Self::PaymentRecorded => (409, "payment-recorded", "Money was received for the order"),
            Self::AlreadyClosed => (409, "already-closed", "It was closed before"),
            Self::AlreadyRunning => (409, "already-running", "Another run is at work"),
            Self::IdempotencyKeyInUse => (
                409,
                "idempotency-key-in-use",
                "The request is being carried out",
            ),
            Self::PreconditionFailed => {
                (412, "precondition-failed", "The order has another version")
            }
            Self::PayloadTooLarge => (413, "payload-too-large", "The body is too large"),
            Self::UnsupportedMediaType => {
                (415, "unsupported-media-type", "The body is of another type")
            }
            Self::IdempotencyKeyReused => (
                422,
                "idempotency-key-reused",
                "The key belongs to another request",
            ),
            Self::RateLimited => (429, "rate-limited", "Too many requests"),
            Self::Internal => (500, "internal", "A fault of this service"),
            Self::Unavailable => (503, "unavailable", "Not now"),
        };
        let Ok(status) = StatusCode::from_u16(status) else {
            panic!("a status of the table")
        };
        Row {
            status,
            slug,
            title,
        }
    }
}

/// A problem that still lacks the path it is about; it travels as an extension of its response.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    pub(crate) members: Members,
}

/// The members that only some kinds have.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Members {
    None {},
    Invalid {
        errors: Vec<FieldError>,
    },
    Running {
        id: String,
    },
    Illegal {
        order_status: Option<&'static str>,
        version: Option<i64>,
        moved_by: Option<Box<HistoryItem>>,
    },
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    type_: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    instance: &'a str,
    #[serde(flatten)]
    members: &'a Members,
}

impl Problem {
    /// Writes the body into a response that was made from this problem.
    pub(crate) fn write(&self, instance: &str, response: Response) -> Response {
        let row = self.kind.row();
        let body = Json(Body {
            type_: format!("/problems/{}", row.slug),
            title: row.title,
            status: row.status.as_u16(),
            detail: &self.detail,
            instance,
            members: &self.members,
        });
        let (head, _) = response.into_parts();
        let mut written = body.into_response();
        *written.status_mut() = head.status;
        let headers = written.headers_mut();
        headers.extend(head.headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        // The emptiness of the response this replaces.
        headers.remove(header::CONTENT_LENGTH);
        written
    }
}
