//! `POST /v1/payment-exceptions/{id}/close`.

use axum::Json;
use axum::extract::State;
use order_fsm::{Decision, OrderEvent, Refusal, decide};
use order_store::{Closed, Closing, Resolution, Store};
use utoipa::ToSchema;

use super::operate::moved_by;
use crate::http::actor::Actor;
use crate::http::body::{Command, Required};
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::idempotency::IdempotencyKey;
use crate::http::path::DigestPath;
use crate::http::problem::Kind;
use crate::http::problem_docs::problems;
use crate::http::query::{Nothing, Params};
use crate::http::wire_ops::Exception;
use crate::http::{schemas, values};

/// How and why an exception is closed.
#[derive(Debug, ToSchema)]
pub(crate) struct ClosePaymentException {
    #[schema(value_type = schemas::Resolution)]
    resolution: Resolution,
    /// Kept with the exception; the reason of the step if a mismatch is accepted.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00]*$")]
    note: String,
}

impl Command for ClosePaymentException {
    const MEMBERS: &'static [&'static str] = &["resolution", "note"];

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let resolution = fields.required("resolution", values::parsed);
        let note = fields.required("note", values::reason);
        Some(Self {
            resolution: resolution?,
            note: note?,
        })
    }
}

problems!(
    InvalidRequest,
    NotFound,
    AlreadyClosed,
    IllegalTransition,
    IdempotencyKeyInUse,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    Internal,
    Unavailable,
);

/// Close a payment exception
///
/// `accepted` on a mismatch pays the order, which must be `NOT_PAID`. The same close again is no
/// error.
#[utoipa::path(
    post,
    path = "/v1/payment-exceptions/{id}/close",
    operation_id = "close_payment_exception",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath, IdempotencyKey),
    request_body = ClosePaymentException,
    responses(
        (status = 200, description = "The exception, closed.", body = Exception),
        Problems,
    ),
)]
pub(crate) async fn close_payment_exception(
    State(store): State<Store>,
    DigestPath(id): DigestPath,
    Actor(actor): Actor,
    Params(Nothing): Params<Nothing>,
    Required(command): Required<ClosePaymentException>,
) -> Result<Json<Exception>, ApiError> {
    let ClosePaymentException { resolution, note } = command;
    let refused_as = Kind::IllegalTransition.row().slug;
    let closing = Closing {
        id: id.clone(),
        resolution,
        note,
        actor,
        refused_as,
    };
    match store.close_exception(closing).await? {
        Closed::Closed | Closed::AlreadyThere => {
            let closed = store.get_exception(id.clone()).await?;
            Ok(Json(closed.ok_or(ApiError::NoSuchException(id))?.into()))
        }
        Closed::Missing => Err(ApiError::NoSuchException(id)),
        Closed::ClosedOtherwise => {
            let detail = "the exception was closed before, in another way or with another note";
            Err(ApiError::AlreadyClosed(detail.to_owned()))
        }
        Closed::NotAcceptable(verdict) => {
            let exception = store.get_exception(id.clone()).await?;
            let exception = exception.ok_or(ApiError::NoSuchException(id))?;
            let order = store.get_order(exception.content.order_id).await?;
            let moved_by = match &order {
                Some(order) => moved_by(&store, order).await?.map(Box::new),
                None => None,
            };
            Err(ApiError::NotAcceptable {
                verdict,
                order: order.map(Box::new),
                moved_by,
            })
        }
        Closed::OrderMoved(order) => {
            let moved_by = moved_by(&store, &order).await?.map(Box::new);
            let refusal = match decide(order.status, OrderEvent::Pay) {
                Decision::Refused(refusal) => refusal,
                Decision::AlreadyThere | Decision::Advance(_) => Refusal::AlreadyPaid,
            };
            Err(ApiError::IllegalTransition {
                event: OrderEvent::Pay,
                refusal,
                order,
                moved_by,
            })
        }
    }
}
