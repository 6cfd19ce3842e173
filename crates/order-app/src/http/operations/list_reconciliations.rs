//! `GET /v1/reconciliations`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::answer::cursor::Scope;
use crate::http::answer::error::ApiError;
use crate::http::answer::page::RunList;
use crate::http::document::problem_docs::problems;
use crate::http::request::page::PageQuery;
use crate::http::request::query::Params;

problems!(InvalidRequest, Internal, Unavailable);

/// List reconciliations
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/reconciliations",
    operation_id = "list_reconciliations",
    tag = "ops",
    security(("token" = ["ops"])),
    params(PageQuery),
    responses(
        (status = 200, description = "A page of runs.", body = RunList),
        Problems,
    ),
)]
pub(crate) async fn list_reconciliations(
    State(store): State<Store>,
    Params(page): Params<PageQuery>,
) -> Result<Json<RunList>, ApiError> {
    let scope = Scope::new("list_reconciliations", &[]);
    let from = page.from(&scope)?;
    let runs = store.list_runs(from, page.limit()).await?;
    Ok(Json(RunList::of(&scope, runs)))
}
