//! `POST /v1/orders/{order_id}/cancel`.

use axum::Json;
use axum::extract::State;
use order_fsm::OrderEvent;
use order_store::{Operation, Store};

use super::ask_first::ask_first;
use super::operate::{OperateOrder, Request, operate, operation};
use crate::http::Reconciliation;
use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::etag::IfMatch;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::path::OrderPath;
use crate::wire;

command_problems!(
    NotFound,
    IllegalTransition,
    PaymentPending,
    PaymentRecorded,
    PaymentStateUnknown,
    PreconditionFailed
);

/// Cancel an order
///
/// From `NOT_PAID` to `CANCELLED`, unless a payment was received. If a payment service is
/// configured, it is asked first: an order that is paid, or whose payment is pending or unknown,
/// isn't cancelled.
#[utoipa::path(
    post,
    path = "/v1/orders/{order_id}/cancel",
    operation_id = "cancel_order",
    tag = "orders",
    security(("token" = ["orders:write"])),
    params(OrderPath, IfMatch, IdempotencyKey),
    request_body = Option<OperateOrder>,
    responses(
        (status = 200, description = "The order, which is `CANCELLED`.", body = wire::Order),
        Problems,
    ),
)]
pub(crate) async fn cancel_order(
    State(store): State<Store>,
    State(reconciliation): State<Reconciliation>,
    request: Request,
) -> Result<Json<wire::Order>, ApiError> {
    let operation = operation(OrderEvent::Cancel, request);
    cancel(&store, &reconciliation, operation).await
}

/// Asks the payment service first, if one is configured.
pub(crate) async fn cancel(
    store: &Store,
    reconciliation: &Reconciliation,
    operation: Operation,
) -> Result<Json<wire::Order>, ApiError> {
    if let Some(service) = &reconciliation.service {
        ask_first(store, service, &operation).await?;
    }
    operate(store, operation).await
}
