//! `GET /v1/orders/{order_id}/payments`.

use axum::Json;
use axum::extract::State;
use order_store::{Place, Store};

use super::order_exists::order_exists;
use crate::http::answer::cursor::Scope;
use crate::http::answer::error::ApiError;
use crate::http::answer::page::PaymentList;
use crate::http::document::problem_docs::problems;
use crate::http::request::page::PageQuery;
use crate::http::request::path::OrderPath;
use crate::http::request::query::Params;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// List the payments of an order
///
/// Recorded payments, oldest first, including those that wait for an order that doesn't exist yet.
#[utoipa::path(
    get,
    path = "/v1/orders/{order_id}/payments",
    operation_id = "list_order_payments",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(OrderPath, PageQuery),
    responses(
        (status = 200, description = "A page of the payments.", body = PaymentList),
        Problems,
    ),
)]
pub(crate) async fn list_order_payments(
    State(store): State<Store>,
    OrderPath(order_id): OrderPath,
    Params(page): Params<PageQuery>,
) -> Result<Json<PaymentList>, ApiError> {
    let scope = Scope::new("list_order_payments", &[Some(order_id.to_string())]);
    let from = page.from(&scope)?;
    let first = from == Place::START;
    let payments = store
        .order_payments(order_id.clone(), from, page.limit())
        .await?;
    // A cursor comes from a payment, so only a first page can be about an unknown order.
    let nothing = first && payments.items.is_empty() && payments.unreadable == 0;
    if nothing && !order_exists(&store, &order_id).await? {
        return Err(ApiError::NoSuchOrderOrPayment(order_id));
    }
    Ok(Json(PaymentList::of(&scope, payments)))
}
