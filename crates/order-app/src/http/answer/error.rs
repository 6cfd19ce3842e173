//! Every error that a caller can receive, and the kind of problem it is reported as.

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use order_fsm::{OrderEvent, OrderId, Refusal, Verdict};
use order_store::Order;

use crate::clock;
use crate::http::answer::field_error::FieldError;
use crate::http::answer::problem::{Kind, Members, Problem};
use crate::telemetry::chain;
use crate::tokens::Scope;
use crate::wire::HistoryItem;

/// The largest body of a request; a larger one is answered with 413.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// An error that is reported to the caller.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The request is invalid; all errors that were found.
    Invalid(Vec<FieldError>),
    /// The caller isn't authenticated, for this reason.
    Unauthenticated(&'static str),
    /// The token lacks this scope.
    Forbidden(Scope),
    /// The request is not addressed to this machine, or comes from a page of another origin.
    ForeignPage(String),
    /// The caller exceeded its request rate.
    RateLimited,
    /// No resource exists at this path.
    NoSuchPath,
    /// The resource, a "dead letter" for example, with this id doesn't exist.
    NotFound(&'static str, String),
    /// Neither an order nor a payment has this id.
    NoSuchOrderOrPayment(OrderId),
    /// The path exists, but it doesn't support the method.
    MethodNotAllowed,
    /// An order with this id exists and has other values.
    OrderExists(Box<Order>),
    /// The order's status doesn't allow this event.
    IllegalTransition {
        /// The step.
        event: OrderEvent,
        /// Why not.
        refusal: Refusal,
        /// The order as it is.
        order: Box<Order>,
        /// The transition that led to its current status.
        moved_by: Option<Box<HistoryItem>>,
    },
    /// The order has another version than the caller expects.
    OtherVersion(Box<Order>),
    /// A payment was received for the order, so it can't be cancelled.
    PaymentRecorded(OrderId),
    /// A payment for the order is pending, so it can't be cancelled.
    PaymentPending(OrderId),
    /// Whether the order was paid can't be determined, for this reason, so it can't be cancelled.
    PaymentStateUnknown(OrderId, String),
    /// Another reconciliation run, with this id, is still running.
    AlreadyRunning(String),
    /// The exception or dead letter was closed before, in another way.
    AlreadyClosed(String),
    /// The payment can't be accepted for its order.
    NotAcceptable {
        /// The payment's verdict.
        verdict: Verdict,
        /// The order as it is, if there is one.
        order: Option<Box<Order>>,
        /// The step that brought it there.
        moved_by: Option<Box<HistoryItem>>,
    },
    /// The same request with the same key is still in progress.
    KeyInUse,
    /// The idempotency key belongs to another request.
    KeyReused,
    /// The body is too large.
    PayloadTooLarge,
    /// The body has an unsupported type, for this reason.
    UnsupportedMediaType(&'static str),
    /// An unexpected error; the log has its cause under this id.
    Internal(ErrorId),
    /// The same request may succeed if it is retried.
    Unavailable,
    /// A row that the request needs can't be read until an operator repairs it.
    Unreadable,
    /// The payment service can't be asked for this long.
    NotToBeAsked(Duration),
}

/// Identifies an unexpected error, in the answer and in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorId(pub(crate) u64);

impl ErrorId {
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for ErrorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl ApiError {
    /// A single error in a request.
    pub(crate) fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(pointer, detail)])
    }

    /// The order doesn't exist.
    pub(crate) fn no_such_order(id: &OrderId) -> Self {
        Self::NotFound("order", id.to_string())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Invalid(_) => Kind::InvalidRequest,
            Self::Unauthenticated(_) => Kind::Unauthenticated,
            Self::Forbidden(_) | Self::ForeignPage(_) => Kind::Forbidden,
            Self::RateLimited => Kind::RateLimited,
            Self::NoSuchPath | Self::NoSuchOrderOrPayment(_) | Self::NotFound(..) => Kind::NotFound,
            Self::PaymentPending(_) => Kind::PaymentPending,
            Self::PaymentStateUnknown(..) => Kind::PaymentStateUnknown,
            Self::AlreadyRunning(_) => Kind::AlreadyRunning,
            Self::AlreadyClosed(_) => Kind::AlreadyClosed,
            Self::MethodNotAllowed => Kind::MethodNotAllowed,
            Self::OrderExists(_) => Kind::OrderExists,
            Self::IllegalTransition { .. } | Self::NotAcceptable { .. } => Kind::IllegalTransition,
            Self::PaymentRecorded(_) => Kind::PaymentRecorded,
            Self::OtherVersion(_) => Kind::PreconditionFailed,
            Self::KeyInUse => Kind::IdempotencyKeyInUse,
            Self::KeyReused => Kind::IdempotencyKeyReused,
            Self::PayloadTooLarge => Kind::PayloadTooLarge,
            Self::UnsupportedMediaType(_) => Kind::UnsupportedMediaType,
            Self::Internal(_) => Kind::Internal,
            Self::Unavailable | Self::Unreadable | Self::NotToBeAsked(_) => Kind::Unavailable,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Invalid(errors) => match errors.as_slice() {
                [] => "the request can't be parsed; check its headers and body".to_owned(),
                [only] if only.pointer.is_empty() => format!("the body {}", only.detail),
                [only] => format!("{} {}", only.pointer, only.detail),
                several => format!("{} errors in the request, listed in `errors`", several.len()),
            },
            Self::Forbidden(scope) => format!("this request needs a token with the scope {scope}"),
            Self::RateLimited => {
                "too many requests per second; retry after the time in Retry-After".to_owned()
            },
            Self::NoSuchPath => "no resource exists at this path".to_owned(),
            Self::NotFound(what, id) => format!("{what} {id} not found"),
            Self::NoSuchOrderOrPayment(id) => format!("no order or payment found for {id}"),
            Self::AlreadyRunning(id) => {
                format!("reconciliation {id} is still running; retry when it has finished")
            },
            Self::PaymentPending(id) => {
                format!("a payment for order {id} is pending; retry when it has succeeded or failed")
            },
            Self::PaymentStateUnknown(id, why) => {
                format!("can't determine whether order {id} was paid: {why}; retry later")
            }
            Self::ForeignPage(why) | Self::AlreadyClosed(why) => why.clone(),
            Self::NotAcceptable { verdict, .. } => {
                format!(
                    "a payment with the verdict {verdict} can't be accepted; close its exception with another resolution"
                )
            }
            Self::MethodNotAllowed => {
                "this path doesn't support the method; the Allow header lists those it supports".to_owned()
            }
            Self::OrderExists(order) => format!(
                "order {} already exists with {} {} and pay_by {}; use another order_id",
                order.order_id,
                order.amount,
                order.currency,
                crate::time_format::format(order.pay_by)
            ),
            Self::IllegalTransition {
                event,
                refusal,
                order,
                ..
            } => {
                format!(
                    "can't {event} order {}: it is {refusal}",
                    order.order_id
                )
            }
            Self::PaymentRecorded(id) => {
                format!("a payment was received for order {id}; refund it and close its exception first")
            }
            Self::OtherVersion(order) => {
                format!(
                    "order {} has version {}; read it and retry with its current ETag",
                    order.order_id, order.version
                )
            }
            Self::KeyInUse => {
                "a request with this key is still in progress; retry when it has finished".to_owned()
            }
            Self::KeyReused => {
                "this key was used for a request with another method, path or body; use a new key"
                    .to_owned()
            }
            Self::PayloadTooLarge => {
                format!("the request body must not exceed {BODY_BYTES_MAX} bytes")
            }
            Self::Unauthenticated(why) | Self::UnsupportedMediaType(why) => (*why).to_owned(),
            Self::Internal(id) => {
                format!("an unexpected error occurred; the service's log explains it under the id {id}")
            },
            Self::Unavailable => {
                "the service can't answer at the moment; retry after the time in Retry-After".to_owned()
            },
            Self::Unreadable => "a database row that this request needs can't be read: it is damaged or was written by a newer \
                                 version; an operator has to repair it (`orderd audit` names it)"
                .to_owned(),
            Self::NotToBeAsked(pause) => {
                let seconds = whole_seconds(*pause);
                let at = clock::now() + Duration::from_secs(seconds);
                format!(
                    "the payment service can't be asked now; retry in {seconds} s, at {}",
                    crate::time_format::format(at)
                )
            }
        }
    }

    fn into_members(self) -> Members {
        match self {
            Self::Invalid(errors) => Members::Invalid { errors },
            Self::IllegalTransition {
                order, moved_by, ..
            } => Members::Illegal {
                order_status: Some(order.status.as_str()),
                version: Some(order.version),
                moved_by,
            },
            Self::NotAcceptable {
                order, moved_by, ..
            } => Members::Illegal {
                order_status: order.as_ref().map(|order| order.status.as_str()),
                version: order.map(|order| order.version),
                moved_by,
            },
            Self::AlreadyRunning(id) => Members::Running { id },
            _ => Members::None {},
        }
    }
}

/// The time in whole seconds, rounded up, at least one.
fn whole_seconds(time: Duration) -> u64 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    seconds.max(1)
}

/// The boundary at which a store error is logged, once and with its whole chain.
impl From<order_store::Error> for ApiError {
    fn from(error: order_store::Error) -> Self {
        if error.is_transient() {
            tracing::warn!(
                error = chain(&error),
                "request failed for the moment; the caller was asked to retry"
            );
            return Self::Unavailable;
        }
        if error.is_inconsistent() {
            // Logged as an error when it was first met.
            tracing::warn!(
                error = chain(&error),
                "request failed on a row that can't be read"
            );
            return Self::Unreadable;
        }
        let id = ErrorId::random();
        tracing::error!(error.id = %id, error = chain(&error), "request failed");
        Self::Internal(id)
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self {
            kind: error.kind(),
            detail: error.detail(),
            members: error.into_members(),
        }
    }
}

/// Without a body: only the layer that knows the path of the request can write it.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = self.kind();
        let mut response = kind.row().status.into_response();
        let header = match (kind, &self) {
            (Kind::Unauthenticated, _) => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            (_, Self::NotToBeAsked(pause)) => {
                Some((header::RETRY_AFTER, whole_seconds(*pause).into()))
            }
            // Repairing a row takes an operator, so retrying sooner is pointless.
            (_, Self::Unreadable) => Some((header::RETRY_AFTER, HeaderValue::from_static("60"))),
            (Kind::RateLimited | Kind::Unavailable, _) => {
                Some((header::RETRY_AFTER, HeaderValue::from_static("1")))
            }
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(Problem::from(self));
        response
    }
}
