//! The HTTP API.
use axum::Router;
/// State.
pub struct HttpState;
impl HttpState {
    /// New.
    pub fn new(
        _: order_store::Store,
        _: crate::health::Health,
        _: metrics_exporter_prometheus::PrometheusHandle,
    ) -> Self {
        Self
    }
}
/// Router.
pub fn router(_: HttpState) -> Router {
    Router::new()
}
/// OpenAPI.
pub fn openapi_json() -> String {
    String::new()
}
/// Serve.
pub async fn serve(
    _: tokio::net::TcpListener,
    _: Router,
    shutdown: tokio_util::sync::CancellationToken,
) {
    shutdown.cancelled().await
}
