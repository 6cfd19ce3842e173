//! Problems (RFC 9457): the closed list of error kinds in the API.
//!
//! Each kind is one row, used in answers and in the OpenAPI document (`problem_docs`).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::http::answer::field_error::FieldError;
use crate::wire::HistoryItem;

/// The media type of every error.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// The properties that all problems of a kind share.
pub(crate) struct Row {
    pub(crate) status: StatusCode,
    pub(crate) slug: &'static str,
    pub(crate) title: &'static str,
}

/// Whether the problem is stored under an idempotency key. A passing problem only describes the
/// current state, so a repeated request is carried out again; a lasting one is replayed.
#[derive(PartialEq, Eq)]
enum Lasts {
    Passing,
    Lasting,
}

macro_rules! kinds {
    ($($kind:ident = $status:ident $slug:literal $title:literal $lasts:ident,)*) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($kind,)*
        }

        impl Kind {
            /// Every kind.
            #[cfg(test)]
            pub(crate) const ALL: [Self; [$($slug),*].len()] = [$(Self::$kind),*];

            /// Its row of the table.
            pub(crate) const fn row(self) -> Row {
                match self {
                    $(Self::$kind => Row {
                        status: StatusCode::$status,
                        slug: $slug,
                        title: $title,
                    },)*
                }
            }

            /// Whether the same request may succeed later.
            pub(crate) fn is_passing(self) -> bool {
                let lasts = match self {
                    $(Self::$kind => Lasts::$lasts,)*
                };
                lasts == Lasts::Passing
            }
        }
    };
}

kinds! {
    InvalidRequest = BAD_REQUEST "invalid-request" "Invalid request" Lasting,
    Unauthenticated = UNAUTHORIZED "unauthenticated" "Authentication required" Passing,
    Forbidden = FORBIDDEN "forbidden" "Access denied" Passing,
    NotFound = NOT_FOUND "not-found" "Not found" Lasting,
    MethodNotAllowed = METHOD_NOT_ALLOWED "method-not-allowed" "Method not allowed" Lasting,
    OrderExists = CONFLICT "order-exists" "Order already exists" Lasting,
    IllegalTransition = CONFLICT "illegal-transition" "Illegal status transition" Lasting,
    PaymentPending = CONFLICT "payment-pending" "Payment pending" Passing,
    PaymentRecorded = CONFLICT "payment-recorded" "Payment already recorded" Lasting,
    PaymentStateUnknown = CONFLICT "payment-state-unknown" "Payment state unknown" Passing,
    AlreadyClosed = CONFLICT "already-closed" "Already closed" Lasting,
    AlreadyRunning = CONFLICT "already-running" "Reconciliation already running" Passing,
    IdempotencyKeyInUse = CONFLICT "idempotency-key-in-use" "Idempotency key in use" Passing,
    PreconditionFailed = PRECONDITION_FAILED "precondition-failed" "Precondition failed" Passing,
    PayloadTooLarge = PAYLOAD_TOO_LARGE "payload-too-large" "Request body too large" Lasting,
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE "unsupported-media-type" "Unsupported media type" Lasting,
    IdempotencyKeyReused = UNPROCESSABLE_ENTITY "idempotency-key-reused" "Idempotency key reused" Lasting,
    RateLimited = TOO_MANY_REQUESTS "rate-limited" "Too many requests" Passing,
    Internal = INTERNAL_SERVER_ERROR "internal" "Internal server error" Passing,
    Unavailable = SERVICE_UNAVAILABLE "unavailable" "Service unavailable" Passing,
}

/// A problem without the request's path; it travels as an extension of its response.
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
    /// The body of the answer, as JSON.
    pub(crate) fn body<'a>(&'a self, instance: &'a str) -> impl Serialize + 'a {
        let row = self.kind.row();
        Body {
            type_: format!("/problems/{}", row.slug),
            title: row.title,
            status: row.status.as_u16(),
            detail: &self.detail,
            instance,
            members: &self.members,
        }
    }

    /// Writes the body into a response that was made from this problem, which then carries its
    /// [`Kind`] as an extension.
    pub(crate) fn write(&self, instance: &str, response: Response) -> Response {
        let body = Json(self.body(instance));
        let (head, _) = response.into_parts();
        let mut written = body.into_response();
        *written.status_mut() = head.status;
        written.extensions_mut().insert(self.kind);
        let headers = written.headers_mut();
        headers.extend(head.headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        // It was 0: the replaced response had no body.
        headers.remove(header::CONTENT_LENGTH);
        written
    }
}
