//! `GET /v1/dead-letters/{id}`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::problems;
use crate::http::request::path::DigestPath;
use crate::http::request::query::{Nothing, Params};
use crate::wire::DeadLetter;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// Get a dead letter
#[utoipa::path(
    get,
    path = "/v1/dead-letters/{id}",
    operation_id = "get_dead_letter",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath),
    responses(
        (status = 200, description = "The dead letter, with its message byte for byte.", body = DeadLetter),
        Problems,
    ),
)]
pub(crate) async fn get_dead_letter(
    State(store): State<Store>,
    DigestPath(id): DigestPath,
    Params(Nothing): Params<Nothing>,
) -> Result<Json<DeadLetter>, ApiError> {
    let letter = store
        .get_dead_letter(id.clone())
        .await?
        .ok_or(ApiError::NotFound("dead letter", id))?;
    Ok(Json(letter.into()))
}
