//! `GET /v1/payments`.

use axum::Json;
use axum::extract::State;
use order_store::{PaymentFilter, Store};

use crate::http::answer::error::ApiError;
use crate::http::answer::page::PaymentList;
use crate::http::document::problem_docs::problems;
use crate::http::request::list::{ListQuery, filters};
use crate::http::request::query::Params;

filters!("list_payments": PaymentFilter {
    provider: Provider, word, "Only of this provider.";
    transaction_id: Id, word, "Only of this transaction.";
    verdict: Verdict, word, "Only with this verdict.";
});

problems!(InvalidRequest, Internal, Unavailable);

/// List payments
///
/// Find the order that a transaction paid, or payments that wait for their order
/// (`verdict=WAITING_FOR_ORDER`).
#[utoipa::path(
    get,
    path = "/v1/payments",
    operation_id = "list_payments",
    tag = "payments",
    security(("token" = ["orders:read"])),
    params(ListQuery<PaymentFilter>),
    responses(
        (status = 200, description = "A page of payments.", body = PaymentList),
        Problems,
    ),
)]
pub(crate) async fn list_payments(
    State(store): State<Store>,
    Params(query): Params<ListQuery<PaymentFilter>>,
) -> Result<Json<PaymentList>, ApiError> {
    let scope = query.scope();
    let from = query.from(&scope)?;
    let page = store
        .list_payments(query.filter, from, query.page.limit())
        .await?;
    Ok(Json(PaymentList::of(&scope, page)))
}
