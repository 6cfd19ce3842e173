//! `GET /v1/dead-letters`.

use axum::Json;
use axum::extract::State;
use order_store::{LetterState, Store};

use crate::http::answer::error::ApiError;
use crate::http::answer::page::DeadLetterList;
use crate::http::document::problem_docs::problems;
use crate::http::request::list::{ListQuery, filters};
use crate::http::request::query::Params;

/// The filters.
#[derive(Debug)]
pub(crate) struct LetterFilter {
    state: Option<LetterState>,
}

filters!("list_dead_letters": LetterFilter {
    state: LetterState, word, "Only in this state.";
});

problems!(InvalidRequest, Internal, Unavailable);

/// List dead letters
///
/// Messages that couldn't be processed, oldest first.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    operation_id = "list_dead_letters",
    tag = "ops",
    security(("token" = ["ops"])),
    params(ListQuery<LetterFilter>),
    responses(
        (status = 200, description = "A page of dead letters.", body = DeadLetterList),
        Problems,
    ),
)]
pub(crate) async fn list_dead_letters(
    State(store): State<Store>,
    Params(query): Params<ListQuery<LetterFilter>>,
) -> Result<Json<DeadLetterList>, ApiError> {
    let scope = query.scope();
    let from = query.from(&scope)?;
    let page = store
        .list_dead_letters(query.filter.state, from, query.page.limit())
        .await?;
    Ok(Json(DeadLetterList::of(&scope, page)))
}
