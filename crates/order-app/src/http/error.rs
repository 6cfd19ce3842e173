//! What can go wrong for a caller, each with the kind of problem it is answered with.

use std::fmt;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use order_fsm::{OrderEvent, OrderId, Refusal, Verdict};
use order_store::Order;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{Kind, Members, Problem};
use super::wire::HistoryItem;
use crate::telemetry::chain;
use crate::tokens::Scope;

/// An answer other than the one that was asked for.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The request can't be read; every fault that was found.
    Invalid(Vec<FieldError>),
    /// Nobody knows who asks, and why not.
    Unauthenticated(&'static str),
    /// The token lacks this scope.
    Forbidden(Scope),
    /// The caller asks too often.
    RateLimited,
    /// There is nothing under this path.
    NoSuchPath,
    /// There is no such order.
    NoSuchOrder(OrderId),
    /// There is neither an order nor a payment of this id.
    NoSuchOrderOrPayment(OrderId),
    /// The path exists, the method doesn't.
    MethodNotAllowed,
    /// The order exists and is another one.
    OrderExists(Box<Order>),
    /// The order can't take this step.
    IllegalTransition {
        /// The step.
        event: OrderEvent,
        /// Why not.
        refusal: Refusal,
        /// The order as it is.
        order: Box<Order>,
        /// The step that brought it there.
        moved_by: Option<Box<HistoryItem>>,
    },
    /// The order has another version than the caller expects.
    OtherVersion(Box<Order>),
    /// Money of this order waits: it is not cancelled.
    PaymentRecorded(OrderId),
    /// A payment of this order is on its way: it is not cancelled.
    PaymentPending(OrderId),
    /// Nobody knows whether this order was paid, for this reason: it is not cancelled.
    PaymentStateUnknown(OrderId, String),
    /// Another run is at work.
    AlreadyRunning(String),
    /// There is no such run.
    NoSuchRun(String),
    /// There is no such exception.
    NoSuchException(String),
    /// There is no such dead letter.
    NoSuchLetter(String),
    /// What this is about was closed before, in another way.
    AlreadyClosed(String),
    /// A payment that can't be accepted for its order.
    NotAcceptable {
        /// What the payment did.
        verdict: Verdict,
        /// The order as it is, if there is one.
        order: Option<Box<Order>>,
        /// The step that brought it there.
        moved_by: Option<Box<HistoryItem>>,
    },
    /// The same request under the same key is being carried out.
    KeyInUse,
    /// The idempotency key belongs to another request.
    KeyReused,
    /// The body is too large.
    PayloadTooLarge,
    /// The body is of another type, and why.
    UnsupportedMediaType(&'static str),
    /// A fault of ours; the log tells more under this id.
    Internal(ErrorId),
    /// The same request may work in a moment.
    Unavailable,
}

/// A fault in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// Where: a JSON pointer into the body (`/amount`; empty for the body as a whole), `?name` for
    /// a query parameter, `{name}` for a part of the path, the name of a header.
    #[schema(examples("/amount", "?limit", "{order_id}"))]
    pub(crate) pointer: String,
    /// What is wrong with it.
    pub(crate) detail: String,
}

impl FieldError {
    pub(crate) fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            detail: detail.into(),
        }
    }
}

/// What a caller can tell an operator about a fault of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorId(u64);

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
    /// One fault in a request.
    pub(crate) fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldError::new(pointer, detail)])
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Invalid(_) => Kind::InvalidRequest,
            Self::Unauthenticated(_) => Kind::Unauthenticated,
            Self::Forbidden(_) => Kind::Forbidden,
            Self::RateLimited => Kind::RateLimited,
            Self::NoSuchPath
            | Self::NoSuchOrder(_)
            | Self::NoSuchOrderOrPayment(_)
            | Self::NoSuchException(_)
            | Self::NoSuchRun(_)
            | Self::NoSuchLetter(_) => Kind::NotFound,
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
            Self::Unavailable => Kind::Unavailable,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Invalid(errors) => match errors.as_slice() {
                [] => "the request can't be read".to_owned(),
                [only] if only.pointer.is_empty() => format!("the body {}", only.detail),
                [only] => format!("{} {}", only.pointer, only.detail),
                several => format!("{} faults in the request", several.len()),
            },
            Self::Forbidden(scope) => format!("the token lacks the scope {scope}"),
            Self::RateLimited => "too many requests in a second".to_owned(),
            Self::NoSuchPath => "there is nothing under this path".to_owned(),
            Self::NoSuchOrder(id) => format!("there is no order {id}"),
            Self::NoSuchOrderOrPayment(id) => format!("there is no order and no payment of {id}"),
            Self::NoSuchException(id) => format!("there is no payment exception {id}"),
            Self::NoSuchLetter(id) => format!("there is no dead letter {id}"),
            Self::NoSuchRun(id) => format!("there is no reconciliation {id}"),
            Self::AlreadyRunning(id) => format!("reconciliation {id} is at work"),
            Self::PaymentPending(id) => format!("a payment of order {id} is on its way"),
            Self::PaymentStateUnknown(id, why) => {
                format!("nobody knows whether order {id} was paid: {why}")
            }
            Self::AlreadyClosed(how) => how.clone(),
            Self::NotAcceptable { verdict, .. } => {
                format!("a payment that is {verdict} can't be accepted for an order")
            }
            Self::MethodNotAllowed => {
                "see the Allow header for the methods of this path".to_owned()
            }
            Self::OrderExists(order) => format!(
                "order {} exists with {} {} and pay_by {}",
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
                    "{event} is not possible: order {} is {refusal}",
                    order.order_id
                )
            }
            Self::PaymentRecorded(id) => {
                format!("money was received for order {id}: a person has to look at it first")
            }
            Self::OtherVersion(order) => {
                format!("order {} has version {}", order.order_id, order.version)
            }
            Self::KeyInUse => {
                "the same request is being carried out: try again in a moment".to_owned()
            }
            Self::KeyReused => {
                "the key was used for a request with another method, path or body".to_owned()
            }
            Self::PayloadTooLarge => {
                format!("the body may have {} bytes at most", super::body::BYTES_MAX)
            }
            Self::Unauthenticated(why) | Self::UnsupportedMediaType(why) => (*why).to_owned(),
            Self::Internal(id) => format!("a fault of this service; its log tells more under {id}"),
            Self::Unavailable => "try again in a moment".to_owned(),
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
            Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::RateLimited
            | Self::NoSuchPath
            | Self::NoSuchOrder(_)
            | Self::NoSuchOrderOrPayment(_)
            | Self::NoSuchRun(_)
            | Self::PaymentPending(_)
            | Self::PaymentStateUnknown(..)
            | Self::MethodNotAllowed
            | Self::OrderExists(_)
            | Self::OtherVersion(_)
            | Self::PaymentRecorded(_)
            | Self::NoSuchException(_)
            | Self::NoSuchLetter(_)
            | Self::AlreadyClosed(_)
            | Self::KeyInUse
            | Self::KeyReused
            | Self::PayloadTooLarge
            | Self::UnsupportedMediaType(_)
            | Self::Internal(_)
            | Self::Unavailable => Members::None {},
        }
    }
}

/// The boundary at which a store error is logged, once and with its whole chain.
impl From<order_store::Error> for ApiError {
    fn from(error: order_store::Error) -> Self {
        if error.is_transient() {
            tracing::warn!(error = chain(&error), "a request met a fault that may pass");
            return Self::Unavailable;
        }
        let id = ErrorId::random();
        tracing::error!(error.id = %id, error = chain(&error), "a request failed");
        Self::Internal(id)
    }
}

/// Without a body: only the layer that knows the path of the request can write it.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (kind, detail) = (self.kind(), self.detail());
        let mut response = kind.row().status.into_response();
        let told = match kind {
            Kind::Unauthenticated => Some((header::WWW_AUTHENTICATE, "Bearer")),
            Kind::RateLimited | Kind::Unavailable => Some((header::RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = told {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        let problem = Problem {
            kind,
            detail,
            members: self.into_members(),
        };
        response.extensions_mut().insert(problem);
        response
    }
}
