//! `POST /v1/orders/{order_id}/complete`.

use axum::Json;
use axum::extract::State;
use order_fsm::OrderEvent;
use order_store::Store;

use super::operate::{OperateOrder, operate, operation};
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
    PreconditionFailed,
    IdempotencyKeyInUse,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    Internal,
    Unavailable,
);

/// Complete an order
///
/// From `SHIPPED` to `DONE`.
#[utoipa::path(
    post,
    path = "/v1/orders/{order_id}/complete",
    operation_id = "complete_order",
    tag = "orders",
    security(("token" = ["orders:write"])),
    params(OrderPath, IfMatch, IdempotencyKey),
    request_body = Option<OperateOrder>,
    responses(
        (status = 200, description = "The order, now or already `DONE`.", body = wire::Order),
        Problems,
    ),
)]
pub(crate) async fn complete_order(
    State(store): State<Store>,
    OrderPath(order_id): OrderPath,
    actor: Actor,
    if_match: IfMatch,
    Params(Nothing): Params<Nothing>,
    Optional(command): Optional<OperateOrder>,
) -> Result<Json<wire::Order>, ApiError> {
    let operation = operation(OrderEvent::Complete, order_id, actor, if_match, command);
    operate(&store, operation).await
}
