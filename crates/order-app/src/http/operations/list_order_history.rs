//! `GET /v1/orders/{order_id}/history`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use super::order_exists::order_exists;
use crate::http::answer::cursor::Scope;
use crate::http::answer::error::ApiError;
use crate::http::answer::page::HistoryItemList;
use crate::http::document::problem_docs::problems;
use crate::http::request::page::PageQuery;
use crate::http::request::path::OrderPath;
use crate::http::request::query::Params;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// List the history of an order
///
/// Its transitions and refusals, oldest first. A refusal has the order's version at that time and
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
    let scope = Scope::new("list_order_history", &[Some(order_id.to_string())]);
    let from = page.from(&scope)?;
    let items = store.history(order_id.clone(), from, page.limit()).await?;
    // Every order has its creation, but a page after the last item is empty as well.
    let nothing = items.items.is_empty() && items.unreadable == 0;
    if nothing && !order_exists(&store, &order_id).await? {
        return Err(ApiError::no_such_order(&order_id));
    }
    Ok(Json(HistoryItemList::of(&scope, items)))
}
