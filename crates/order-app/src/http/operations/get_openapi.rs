//! `GET /openapi.json`.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::http::Document;
use crate::http::document::problem_docs::problems;

problems!(Internal, Unavailable);

/// Get this document
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "get_openapi",
    tag = "service",
    security(()),
    responses(
        (status = 200, description = "The OpenAPI 3.1 document.", body = Object,
            content_type = "application/json"),
        Problems,
    ),
)]
pub(crate) async fn get_openapi(State(document): State<Document>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document.0)
}
