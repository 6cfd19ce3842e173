//! `GET /v1/reconciliations`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{PageQuery, RunList};
use crate::http::problem_docs::problems;
use crate::http::query::Params;

problems!(InvalidRequest, Internal, Unavailable);

/// List reconciliations
///
/// Newest first: the question is how the last ones went.
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
    let before = page.after(&scope)?;
    let runs = store.list_runs(before, page.fetch()).await?;
    Ok(Json(page.cut(&scope, runs)))
}
