//! Probes, metrics and the pages.

use super::app::TestApp;
use crate::health::Cause;

#[tokio::test]
async fn readiness_follows_health_and_liveness_does_not() {
    let app = TestApp::start().await;
    for (database, broker, expect) in [
        (false, false, 503),
        (true, false, 503),
        (false, true, 503),
        (true, true, 200),
    ] {
        app.health.set_database(database);
        app.health.set_broker(broker);
        let (ready, live) = (app.get("/readyz").await, app.get("/livez").await);
        assert_eq!(ready.status.as_u16(), expect, "{ready}");
        assert_eq!(live.status, 200, "{live}");
        assert_eq!(ready.json(), live.json());
    }
    insta::assert_snapshot!("ready", app.get("/readyz").await);
    app.health.set_broker(false);
    insta::assert_snapshot!("not_ready", app.get("/readyz").await);
    app.health.set_broker(true);
    app.health
        .set_cause(Cause::HeldMessages, "1 message is held back");
    insta::assert_snapshot!("held_back", app.get("/readyz").await);
    app.health.clear_cause(Cause::HeldMessages);
    assert_eq!(app.get("/readyz").await.status, 200);
    app.health.drain();
    let draining = app.get("/readyz").await;
    assert_eq!(draining.status, 503);
    assert_eq!(draining.json()["status"], "not-ready");
    assert_eq!(draining.json()["checks"]["broker"], "up");
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let app = TestApp::start().await;
    let answer = app.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
}

#[tokio::test]
async fn the_pages_are_embedded_and_load_nothing_from_elsewhere() {
    let app = TestApp::start().await;
    let redirect = app.get("/docs").await;
    assert_eq!(
        (redirect.status.as_u16(), redirect.header("location")),
        (303, Some("/docs/"))
    );
    let page = app.get("/docs/").await;
    assert_eq!(page.status, 200);
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    for asset in [
        "swagger-ui.css",
        "swagger-ui-bundle.js",
        "swagger-ui-standalone-preset.js",
    ] {
        assert!(page.text().contains(asset), "{asset}");
        assert_eq!(
            app.get(&format!("/docs/{asset}")).await.status,
            200,
            "{asset}"
        );
    }
    let setup = app.get("/docs/swagger-initializer.js").await;
    assert!(
        setup.text().contains(r#""url": "/openapi.json""#),
        "{setup}"
    );
    assert!(
        setup.text().contains(r#""validatorUrl": "none""#),
        "{setup}"
    );
    for text in [page.text(), setup.text()] {
        assert!(
            !text.contains("https://") && !text.contains("http://"),
            "{text}"
        );
    }
}
