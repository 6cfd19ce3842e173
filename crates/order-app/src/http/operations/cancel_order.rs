//! `POST /v1/orders/{order_id}/cancel`.

use axum::Json;
use axum::extract::State;
use order_fsm::OrderEvent;
use order_store::Store;

use super::ask_first::ask_first;
use super::operate::{OperateOrder, operate, operation};
use crate::http::Reconciliation;
use crate::http::actor::Actor;
use crate::http::body::Optional;
use crate::http::error::ApiError;
use crate::http::etag::IfMatch;
use crate::http::idempotency::IdempotencyKey;
use crate::http::path::OrderPath;
use crate::http::problem_docs::problems;
use crate::http::query::{Nothing, Params};
use crate::http::wire;

problems!(
    InvalidRequest,
    NotFound,
    IllegalTransition,
    PaymentPending,
    PaymentRecorded,
    PaymentStateUnknown,
    PreconditionFailed,
    IdempotencyKeyInUse,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    Internal,
    Unavailable,
);

/// Cancel an order
///
/// From `NOT_PAID` to `CANCELLED`, unless money was received for it. The payment service, if one is
/// set, is asked first: an order that was paid, may be on its way to be paid, or that nobody knows
/// about is not cancelled.
#[utoipa::path(
    post,
    path = "/v1/orders/{order_id}/cancel",
    operation_id = "cancel_order",
    tag = "orders",
    security(("token" = ["orders:write"])),
    params(OrderPath, IfMatch, IdempotencyKey),
    request_body = Option<OperateOrder>,
    responses(
        (status = 200, description = "The order, now or already `CANCELLED`.", body = wire::Order),
        Problems,
    ),
)]
pub(crate) async fn cancel_order(
    State(store): State<Store>,
    State(reconciliation): State<Reconciliation>,
    OrderPath(order_id): OrderPath,
    actor: Actor,
    if_match: IfMatch,
    Params(Nothing): Params<Nothing>,
    Optional(command): Optional<OperateOrder>,
) -> Result<Json<wire::Order>, ApiError> {
    let operation = operation(OrderEvent::Cancel, order_id, actor, if_match, command);
    if let Some(service) = &reconciliation.service {
        ask_first(&store, service, &operation).await?;
    }
    operate(&store, operation).await
}
