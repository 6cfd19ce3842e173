//! `POST /v1/payment-exceptions/{id}/close`.

use axum::Json;
use axum::extract::State;
use order_fsm::{Decision, OrderEvent, Refusal, decide};
use order_store::{Closed, Closing, PaymentException, Resolution, Store};
use utoipa::ToSchema;

use super::operate::moved_by;
use crate::http::answer::error::ApiError;
use crate::http::answer::problem::Kind;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::actor::Actor;
use crate::http::request::body::{Command, Required};
use crate::http::request::fields::Fields;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::path::DigestPath;
use crate::http::request::query::{Nothing, Params};
use crate::http::request::values;
use crate::wire::Exception;
use crate::wire::schemas;

/// How and why an exception is closed.
#[derive(Debug, ToSchema)]
pub(crate) struct ClosePaymentException {
    #[schema(value_type = schemas::Resolution)]
    resolution: Resolution,
    /// Stored with the exception; if a mismatch is accepted, also the reason in the order's
    /// history.
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

command_problems!(NotFound, AlreadyClosed, IllegalTransition);

/// Close a payment exception
///
/// `accepted` for a mismatch pays the order, which must be `NOT_PAID`. Repeating the same close
/// succeeds.
#[utoipa::path(
    post,
    path = "/v1/payment-exceptions/{id}/close",
    operation_id = "close_payment_exception",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath, IdempotencyKey),
    request_body = ClosePaymentException,
    responses(
        (status = 200, description = "The closed exception.", body = Exception),
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
    let closed = close(&store, id, resolution, note, actor).await?;
    Ok(Json(closed.into()))
}

/// Closes an exception; returns it as it is then.
pub(crate) async fn close(
    store: &Store,
    id: String,
    resolution: Resolution,
    note: String,
    actor: String,
) -> Result<PaymentException, ApiError> {
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
            closed.ok_or(ApiError::NotFound("payment exception", id))
        }
        Closed::Missing => Err(ApiError::NotFound("payment exception", id)),
        Closed::ClosedOtherwise => {
            let detail = "the exception is already closed with another resolution or note";
            Err(ApiError::AlreadyClosed(detail.to_owned()))
        }
        Closed::NotAcceptable(verdict) => {
            let exception = store.get_exception(id.clone()).await?;
            let exception = exception.ok_or(ApiError::NotFound("payment exception", id))?;
            let order = store.get_order(exception.content.order_id).await?;
            let moved_by = match &order {
                Some(order) => moved_by(store, order).await?.map(Box::new),
                None => None,
            };
            Err(ApiError::NotAcceptable {
                verdict,
                order: order.map(Box::new),
                moved_by,
            })
        }
        Closed::OrderMoved(order) => {
            let moved_by = moved_by(store, &order).await?.map(Box::new);
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
