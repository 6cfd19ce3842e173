//! `GET /v1/orders/{order_id}/payments`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{PageQuery, PaymentList};
use crate::http::path::OrderPath;
use crate::http::problem_docs::problems;
use crate::http::query::Params;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// List the payments of an order
///
/// Recorded payments, oldest first; also those that wait for an order that doesn't exist yet.
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
    let scope = Scope::new("list_order_payments", &[Some(order_id.as_str())]);
    let after = page.after(&scope)?;
    let first = after.is_none();
    let payments = store
        .order_payments(order_id.clone(), after, page.fetch())
        .await?;
    // A cursor came from a payment, so that only a first page can be about nothing.
    if first && payments.is_empty() && store.get_order(order_id.clone()).await?.is_none() {
        return Err(ApiError::NoSuchOrderOrPayment(order_id));
    }
    Ok(Json(page.cut(&scope, payments)))
}
