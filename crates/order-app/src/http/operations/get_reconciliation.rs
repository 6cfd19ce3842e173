//! `GET /v1/reconciliations/{id}`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::problems;
use crate::http::request::path::RunPath;
use crate::http::request::query::{Nothing, Params};
use crate::wire::Run;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// Get a reconciliation
///
/// Counts grow while it is running; findings are available when it has ended.
#[utoipa::path(
    get,
    path = "/v1/reconciliations/{id}",
    operation_id = "get_reconciliation",
    tag = "ops",
    security(("token" = ["ops"])),
    params(RunPath),
    responses(
        (status = 200, description = "The run.", body = Run),
        Problems,
    ),
)]
pub(crate) async fn get_reconciliation(
    State(store): State<Store>,
    RunPath(id): RunPath,
    Params(Nothing): Params<Nothing>,
) -> Result<Json<Run>, ApiError> {
    let run = store.get_run(id.clone()).await?;
    Ok(Json(
        run.ok_or(ApiError::NotFound("reconciliation", id))?.into(),
    ))
}
