//! `GET /v1/orders`.

use axum::Json;
use axum::extract::State;
use order_store::{OrderFilter, Store};

use crate::http::answer::error::ApiError;
use crate::http::answer::page::OrderList;
use crate::http::document::problem_docs::problems;
use crate::http::request::list::{ListQuery, filters};
use crate::http::request::query::Params;

filters!("list_orders": OrderFilter {
    status: OrderStatus, word, "Only in this status.";
    created_after: Time, time, "Only created at this time or later. A plus in a query is written `%2B`.";
    created_before: Time, time, "Only created before this time. A plus in a query is written `%2B`.";
});

problems!(InvalidRequest, Internal, Unavailable);

/// List orders
///
/// Oldest first. A page reads a limited number of orders, so with `status` it may be short or even
/// empty; only a null `next_cursor` ends the list.
#[utoipa::path(
    get,
    path = "/v1/orders",
    operation_id = "list_orders",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(ListQuery<OrderFilter>),
    responses(
        (status = 200, description = "A page of orders.", body = OrderList),
        Problems,
    ),
)]
pub(crate) async fn list_orders(
    State(store): State<Store>,
    Params(query): Params<ListQuery<OrderFilter>>,
) -> Result<Json<OrderList>, ApiError> {
    let scope = query.scope();
    let from = query.from(&scope)?;
    let page = store
        .list_orders(query.filter, from, query.page.limit())
        .await?;
    Ok(Json(OrderList::of(&scope, page)))
}
