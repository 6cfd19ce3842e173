//! `POST /v1/orders/{order_id}/ship` and `/complete`, which differ in their event only, and what
//! cancelling has in common with them.

use axum::Json;
use axum::extract::State;
use order_fsm::{OrderEvent, OrderId};
use order_store::{
    HistoryCursor, Operated, Operation, Order, Outcome, Place, RefusedAs, Source, Store,
};
use time::macros::datetime;
use utoipa::ToSchema;

use crate::http::answer::error::ApiError;
use crate::http::answer::problem::Kind;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::actor::Actor;
use crate::http::request::body::{Command, Optional};
use crate::http::request::etag::IfMatch;
use crate::http::request::fields::Fields;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::path::OrderPath;
use crate::http::request::query::{Nothing, Params};
use crate::http::request::values;
use crate::wire;

command_problems!(NotFound, IllegalTransition, PreconditionFailed);

/// Ship an order
///
/// From `PAID` to `SHIPPED`.
#[utoipa::path(
    post,
    path = "/v1/orders/{order_id}/ship",
    operation_id = "ship_order",
    tag = "orders",
    security(("token" = ["orders:write"])),
    params(OrderPath, IfMatch, IdempotencyKey),
    request_body = Option<OperateOrder>,
    responses(
        (status = 200, description = "The order, which is `SHIPPED`.", body = wire::Order),
        Problems,
    ),
)]
pub(crate) async fn ship_order(
    State(store): State<Store>,
    request: Request,
) -> Result<Json<wire::Order>, ApiError> {
    operate(&store, operation(OrderEvent::Ship, request)).await
}

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
    request: Request,
) -> Result<Json<wire::Order>, ApiError> {
    operate(&store, operation(OrderEvent::Complete, request)).await
}

/// Why an order is shipped, completed or cancelled.
#[derive(Debug, ToSchema)]
pub(crate) struct OperateOrder {
    /// Stored in the order's history.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00]*$")]
    reason: Option<String>,
}

impl Command for OperateOrder {
    const MEMBERS: &'static [&'static str] = &["reason"];

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            reason: fields.optional("reason", values::reason),
        })
    }
}

/// The parts of a request that moves an order, in the order in which they are checked.
pub(crate) type Request = (
    OrderPath,
    Actor,
    IfMatch,
    Params<Nothing>,
    Optional<OperateOrder>,
);

/// The operation that a request describes.
pub(crate) fn operation(event: OrderEvent, request: Request) -> Operation {
    let (OrderPath(order_id), Actor(actor), IfMatch(if_version), _, Optional(command)) = request;
    let reason = command.and_then(|command| command.reason);
    because(event, order_id, actor, if_version, reason)
}

/// The operation, with the reason that a person gave.
pub(crate) fn because(
    event: OrderEvent,
    order_id: OrderId,
    actor: String,
    if_version: Option<Vec<i64>>,
    reason: Option<String>,
) -> Operation {
    Operation {
        order_id,
        event,
        source: Source::Api,
        actor,
        reason,
        if_version,
        // The history names a refusal by the slug that the caller gets.
        refused_as: RefusedAs {
            illegal: Kind::IllegalTransition.row().slug,
            money_held: Kind::PaymentRecorded.row().slug,
        },
    }
}

/// Advances an order. An order that already has the target status succeeds too.
pub(crate) async fn operate(
    store: &Store,
    operation: Operation,
) -> Result<Json<wire::Order>, ApiError> {
    let (event, order_id) = (operation.event, operation.order_id.clone());
    match store.operate(operation).await? {
        Operated::Applied(order) | Operated::AlreadyThere(order) => Ok(Json(order.into())),
        Operated::Refused(order, refusal) => {
            let moved_by = moved_by(store, &order).await?.map(Box::new);
            let order = Box::new(order);
            Err(ApiError::IllegalTransition {
                event,
                refusal,
                order,
                moved_by,
            })
        }
        Operated::OtherVersion(order) => Err(ApiError::OtherVersion(Box::new(order))),
        Operated::MoneyHeld(_) => Err(ApiError::PaymentRecorded(order_id)),
        Operated::Missing => Err(ApiError::no_such_order(&order_id)),
    }
}

/// The transition that led to this version. Versions are never rewritten, so it may be read after
/// the refusal.
pub(crate) async fn moved_by(
    store: &Store,
    order: &Order,
) -> Result<Option<wire::HistoryItem>, ApiError> {
    // After every refusal at the previous version.
    let before = HistoryCursor {
        version: order.version - 1,
        refused: true,
        at: datetime!(9999-12-31 23:59:59 UTC),
        event: String::new(),
        reason: String::new(),
        provider: String::new(),
        transaction_id: String::new(),
    };
    let items = store
        .history(order.order_id.clone(), Place::after(before), 1)
        .await?;
    let step = items
        .items
        .into_iter()
        .next()
        .filter(|item| item.outcome == Outcome::Applied);
    Ok(step.map(wire::HistoryItem::from))
}
