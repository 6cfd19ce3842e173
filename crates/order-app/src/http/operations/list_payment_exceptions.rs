//! `GET /v1/payment-exceptions`.

use axum::Json;
use axum::extract::State;
use order_store::{ExceptionFilter, Store};

use crate::http::answer::error::ApiError;
use crate::http::answer::page::ExceptionList;
use crate::http::document::problem_docs::problems;
use crate::http::request::list::{ListQuery, filters};
use crate::http::request::query::Params;

filters!("list_payment_exceptions": ExceptionFilter {
    state: ExceptionState, word, "Only in this state.";
    verdict: Verdict, word, "Only with this verdict.";
    order_id: Id, word, "Only of this order.";
});

problems!(InvalidRequest, Internal, Unavailable);

/// List payment exceptions
///
/// Payments that need a person, oldest first.
#[utoipa::path(
    get,
    path = "/v1/payment-exceptions",
    operation_id = "list_payment_exceptions",
    tag = "ops",
    security(("token" = ["ops"])),
    params(ListQuery<ExceptionFilter>),
    responses(
        (status = 200, description = "A page of exceptions.", body = ExceptionList),
        Problems,
    ),
)]
pub(crate) async fn list_payment_exceptions(
    State(store): State<Store>,
    Params(query): Params<ListQuery<ExceptionFilter>>,
) -> Result<Json<ExceptionList>, ApiError> {
    let scope = query.scope();
    let from = query.from(&scope)?;
    let page = store
        .list_exceptions(query.filter, from, query.page.limit())
        .await?;
    Ok(Json(ExceptionList::of(&scope, page)))
}
