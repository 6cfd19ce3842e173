//! `POST /v1/orders/{order_id}/complete`.

use axum::Json;
use axum::extract::State;
use order_fsm::OrderEvent;
use order_store::Store;

use super::operate::{OperateOrder, operate, operation};
use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::actor::Actor;
use crate::http::request::body::Optional;
use crate::http::request::etag::IfMatch;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::path::OrderPath;
use crate::http::request::query::{Nothing, Params};
use crate::wire;

command_problems!(NotFound, IllegalTransition, PreconditionFailed);

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
        (status = 200, description = "The order, which is `DONE`.", body = wire::Order),
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
