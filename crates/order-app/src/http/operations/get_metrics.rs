//! `GET /metrics`.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::http::document::problem_docs::problems;

problems!(Internal, Unavailable);

/// Get the metrics
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "get_metrics",
    tag = "service",
    security(("token" = ["ops"])),
    responses(
        (status = 200, description = "Metrics in the Prometheus text format.", body = String,
            content_type = "text/plain"),
        Problems,
    ),
)]
pub(crate) async fn get_metrics(State(metrics): State<PrometheusHandle>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        metrics.render(),
    )
}
