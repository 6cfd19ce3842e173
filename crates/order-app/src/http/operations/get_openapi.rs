//! `GET /openapi.json`.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;

use crate::http::openapi::openapi_json;
use crate::http::problem_docs::problems;

problems!(Internal, Unavailable);

/// Get this document
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "get_openapi",
    tag = "service",
    security(()),
    responses(
        (status = 200, description = "OpenAPI 3.1.", body = Object,
            content_type = "application/json"),
        Problems,
    ),
)]
pub(crate) async fn get_openapi() -> impl IntoResponse {
    static JSON: LazyLock<Bytes> = LazyLock::new(|| openapi_json().into());
    ([(header::CONTENT_TYPE, "application/json")], JSON.clone())
}
