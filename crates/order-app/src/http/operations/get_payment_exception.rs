//! `GET /v1/payment-exceptions/{id}`.

use axum::Json;
use axum::extract::State;
use order_store::Store;

use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::problems;
use crate::http::request::path::DigestPath;
use crate::http::request::query::{Nothing, Params};
use crate::wire::Exception;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// Get a payment exception
#[utoipa::path(
    get,
    path = "/v1/payment-exceptions/{id}",
    operation_id = "get_payment_exception",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath),
    responses(
        (status = 200, description = "The exception.", body = Exception),
        Problems,
    ),
)]
pub(crate) async fn get_payment_exception(
    State(store): State<Store>,
    DigestPath(id): DigestPath,
    Params(Nothing): Params<Nothing>,
) -> Result<Json<Exception>, ApiError> {
    let found = store
        .get_exception(id.clone())
        .await?
        .ok_or(ApiError::NotFound("payment exception", id))?;
    Ok(Json(found.into()))
}
