//! Every kind of problem, and everything around the operations.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::get;
use order_payment_mock::{Answer as Known, Mock, Script};
use order_store::Store;
use utoipa::openapi::OpenApi;

use super::access::Closed;
use super::app::{self, Answer, TestApp};
use crate::http::answer::error::ApiError;
use crate::http::answer::problem::Kind;
use crate::http::server::access::Access;
use crate::http::server::layers;
use crate::payment_service::PaymentService;
use crate::tokens::Scope;

/// A router whose operations fail in ways that tests can't cause from outside.
fn faulty() -> Router {
    let router = Router::new()
        .route(
            "/panic",
            get(async || -> &str { panic!("the panic's text") }),
        )
        .route(
            "/slow",
            get(async || tokio::time::sleep(Duration::from_mins(1)).await),
        )
        .route(
            "/store",
            get(async || {
                ApiError::from(order_store::Error::FileUnfit {
                    path: "orderd.db".to_owned(),
                    why: "its cause".to_owned(),
                })
            }),
        )
        .route(
            "/foreign",
            get(async || (StatusCode::BAD_GATEWAY, "from elsewhere")),
        )
        .route(
            "/teapot",
            get(async || StatusCode::IM_A_TEAPOT.into_response()),
        );
    layers::around(router, Access::open(), Duration::from_millis(50), None)
}

async fn ask(router: &Router, path: &str) -> Answer {
    app::send(router, app::get(path).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn every_kind_of_problem_has_the_same_form() {
    let mut script = Script::default();
    script.set("OD-2", Known::unpaid());
    script.set("OD-PENDING", Known::pending());
    let (_mock, url) = Mock::over_http(script).await.unwrap();
    let asking = |store: &Store| Some(PaymentService::at(&url, store, Duration::ZERO));
    let app = TestApp::start_asking(asking).await;
    let faulty = faulty();
    let closed = Closed::start(None).await;
    let seldom = Access::new(None, NonZeroU32::new(1), &OpenApi::default());
    let limited = layers::around(Router::new(), seldom, Duration::from_secs(1), None);
    ask(&limited, "/v1/once").await;
    let limited = ask(&limited, "/v1/again").await;
    app.create("OD-1").await;
    app.create("OD-PENDING").await;
    app.create("OD-3").await;
    app.create("OD-2").await;
    app.pay("OD-2", "tx-1", 1).await;
    let order = r#"{"order_id":"OD-1","amount":1,"currency":"CNY"}"#;
    let put = Request::put("/v1/orders").body(Body::empty()).unwrap();
    app.pay("OD-2", "tx-2", 2).await;
    let open = app.get("/v1/payment-exceptions").await.json();
    let id = open["items"][0]["id"].as_str().unwrap().to_owned();
    let close = format!("/v1/payment-exceptions/{id}/close");
    app.post(&close, r#"{"resolution":"refunded","note":"x"}"#)
        .await;
    app.post("/v1/reconciliations", "").await;
    let other_version = app::post("/v1/orders/OD-1/cancel").header("if-match", "\"2\"");
    let other_version = other_version.body(Body::empty()).unwrap();
    let keyed = |body: &'static str| {
        let request = app::post("/v1/orders").header("idempotency-key", "k1");
        request.body(Body::from(body)).unwrap()
    };
    app.hold_key("k1", "/v1/orders", "running").await;
    let untyped = Request::post("/v1/orders").body(Body::from(order)).unwrap();

    let answers = [
        app.post("/v1/orders", "{}").await,
        closed.ask(&Method::GET, "/v1/payments", None).await,
        closed
            .ask_as(&[Scope::Ops], &Method::GET, "/v1/payments")
            .await,
        app.get("/v1/orders/OD-9").await,
        app.send(put).await,
        app.post("/v1/orders", order).await,
        app.post("/v1/orders/OD-1/ship", "").await,
        app.post("/v1/orders/OD-PENDING/cancel", "").await,
        app.post("/v1/orders/OD-2/cancel", "").await,
        app.post("/v1/orders/OD-3/cancel", "").await,
        app.post(&close, r#"{"resolution":"accepted","note":"x"}"#)
            .await,
        app.post("/v1/reconciliations", "").await,
        app.send(keyed("running")).await,
        app.send(other_version).await,
        app.post("/v1/orders", vec![b' '; 65_537]).await,
        app.send(untyped).await,
        app.send(keyed("other")).await,
        limited,
        ask(&faulty, "/panic").await,
        ask(&faulty, "/slow").await,
    ];
    for (kind, answer) in Kind::ALL.into_iter().zip(answers) {
        let row = kind.row();
        let problem = answer.problem(row.status.as_u16(), row.slug);
        assert_eq!(problem["title"], row.title);
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{answer}"
        );
        assert!(
            problem["instance"]
                .as_str()
                .is_some_and(|path| path.starts_with('/')),
            "{answer}"
        );
        let retry_after = if matches!(kind, Kind::RateLimited | Kind::Unavailable) {
            Some("1")
        } else {
            None
        };
        assert_eq!(answer.header("retry-after"), retry_after, "{answer}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{answer}");
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let app = TestApp::start().await;
    insta::assert_snapshot!(app.get("/v1/nothing?x=%00").await);
    for path in [
        "/",
        "/v1",
        "/v1/orders/",
        "/v1//orders",
        "/v1/orders/OD-1/pay",
        "/V1/orders",
        "/%2e%2e",
    ] {
        let problem = app.get(path).await.problem(404, "not-found");
        assert_eq!(problem["instance"], path);
    }
    app.get("/docs/nothing.js").await.problem(404, "not-found");
}

#[tokio::test]
async fn targets_that_are_not_paths_are_not_found() {
    let app = TestApp::start().await;
    for (method, target) in [
        (Method::OPTIONS, "*"),
        (Method::GET, "*"),
        (Method::CONNECT, "localhost:8080"),
    ] {
        let request = Request::builder()
            .method(&method)
            .uri(target)
            .body(Body::empty())
            .unwrap();
        app.send(request).await.problem(404, "not-found");
    }
    let absolute = app.get("http://localhost:8080/livez").await;
    assert_eq!(absolute.status, 200, "{absolute}");
}

#[tokio::test]
async fn wrong_methods_are_answered_with_the_allowed_ones() {
    let app = TestApp::start().await;
    let delete = Request::delete("/v1/orders/OD-1")
        .body(Body::empty())
        .unwrap();
    insta::assert_snapshot!(app.send(delete).await);
    let invented = Method::from_bytes(b"BREW").unwrap();
    for (method, path, allow) in [
        (Method::PUT, "/v1/orders", "POST,GET,HEAD"),
        (Method::GET, "/v1/orders/OD-1/ship", "POST"),
        (Method::OPTIONS, "/v1/orders", "POST,GET,HEAD"),
        (Method::POST, "/v1/payments", "GET,HEAD"),
        (Method::POST, "/livez", "GET,HEAD"),
        (invented, "/metrics", "GET,HEAD"),
    ] {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .body(Body::empty())
            .unwrap();
        let answer = app.send(request).await;
        answer.problem(405, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test]
async fn a_database_fault_is_answered_with_retry_after() {
    let app = TestApp::start().await;
    app.store.close().await;
    for uri in ["/v1/orders/OD-1", "/v1/orders/OD-1/history", "/v1/payments"] {
        app.get(uri).await.problem(503, "unavailable");
    }
    let order = r#"{"order_id":"OD-1","amount":1,"currency":"CNY"}"#;
    insta::assert_snapshot!(app.post("/v1/orders", order).await);
    app.post("/v1/orders/OD-1/ship", "")
        .await
        .problem(503, "unavailable");
}

#[tokio::test]
async fn errors_from_elsewhere_become_problems_too() {
    let faulty = faulty();
    ask(&faulty, "/foreign").await.problem(500, "internal");
    ask(&faulty, "/teapot")
        .await
        .problem(400, "invalid-request");
}

#[tokio::test]
async fn an_internal_error_answers_an_id_that_the_log_explains() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let faulty = faulty();
    for (path, cause) in [("/store", "its cause"), ("/panic", "the panic's text")] {
        let answer = ask(&faulty, path).await;
        let detail = answer.problem(500, "internal")["detail"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(!answer.text().contains(cause), "{answer}");
        let id = detail.split_whitespace().last().unwrap();
        let log = log.text();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(id)).collect();
        assert!(
            matches!(lines.as_slice(), [line] if line.contains(cause)),
            "{id} in {log}"
        );
    }
    drop(guard);
}

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
