//! The labels of the request metrics.

use axum::body::Body;
use axum::http::{Method, Request};
use metrics_exporter_prometheus::PrometheusBuilder;

use super::app::TestApp;

#[tokio::test]
async fn requests_are_counted_by_template_never_by_path() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    // Of this thread, on which the whole test runs.
    let guard = metrics::set_default_local_recorder(&recorder);
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.get("/v1/orders/OD-1").await;
    app.get("/v1/orders/OD-2").await;
    app.get("/v1/orders/!").await;
    app.get("/v1/nothing/OD-1").await;
    app.get("/docs/swagger-ui.css").await;
    for method in [
        Method::DELETE,
        Method::HEAD,
        Method::from_bytes(b"BREW").unwrap(),
    ] {
        let request = Request::builder().method(method).uri("/v1/orders/OD-1");
        app.send(request.body(Body::empty()).unwrap()).await;
    }
    drop(guard);

    let text = metrics.render();
    let mut counts: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("orderd_http_requests_total{"))
        .collect();
    counts.sort_unstable();
    insta::assert_snapshot!(counts.join("\n"));
    assert!(text.contains(
        r#"orderd_http_request_seconds_count{method="GET",route="/v1/orders/{order_id}"} 3"#
    ));
    assert!(!text.contains("OD-1") && !text.contains("BREW"), "{text}");
}
