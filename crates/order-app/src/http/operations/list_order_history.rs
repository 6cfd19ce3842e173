//! `GET /v1/orders/{order_id}/history`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{HistoryItemList, PageQuery};
use crate::http::path::OrderPath;
use crate::http::problem_docs::problems;
use crate::http::query::Params;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// List the history of an order
///
/// The steps it took and those it was refused, oldest first. A refusal has the version it met and
/// is listed once per version, event, reason and transaction.
#[utoipa::path(
    get,
    path = "/v1/orders/{order_id}/history",
    operation_id = "list_order_history",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(OrderPath, PageQuery),
    responses(
        (status = 200, description = "A page of the history.", body = HistoryItemList),
        Problems,
    ),
)]
pub(crate) async fn list_order_history(
    State(store): State<Store>,
    OrderPath(order_id): OrderPath,
    Params(page): Params<PageQuery>,
) -> Result<Json<HistoryItemList>, ApiError> {
    let scope = Scope::new("list_order_history", &[Some(order_id.as_str())]);
    let after = page.after(&scope)?;
    let items = store.history(order_id.clone(), after, page.fetch()).await?;
    // Every order has its creation; behind the last item there is nothing either.
    if items.is_empty() && store.get_order(order_id.clone()).await?.is_none() {
        return Err(ApiError::NoSuchOrder(order_id));
    }
    Ok(Json(page.cut(&scope, items)))
}
