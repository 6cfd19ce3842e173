//! `GET /readyz`.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::health::Health;
use crate::http::answer::probe::Probe;
use crate::http::document::problem_docs::problems;

problems!(Internal);

/// Check whether the service is ready for traffic
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "get_readiness",
    tag = "service",
    security(()),
    responses(
        (status = 200, description = "The service is ready.", body = Probe),
        (status = 503, description = "The service isn't ready: `reasons` says why.", body = Probe,
            headers(("Retry-After" = i32, description = "Seconds."))),
        Problems,
    ),
)]
pub(crate) async fn get_readiness(State(health): State<Health>) -> Response {
    let probe = Probe::of(&health);
    if probe.is_ready() {
        return Json(probe).into_response();
    }
    let retry_after = [(header::RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, retry_after, Json(probe)).into_response()
}
