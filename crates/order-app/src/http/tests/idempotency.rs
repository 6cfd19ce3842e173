//! `Idempotency-Key` on commands.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse as _;
use order_payment_mock::{Answer as Said, Fault, Script};
use order_store::{Clock, KeyedRequest, RunCounts, RunState};

use super::access::Closed;
use super::app::{Answer, NOW, TestApp, post, send};
use super::reconciliations::asking;
use crate::http::server::idempotency;
use crate::tokens::Scope;

const ORDER: &str = r#"{"order_id":"OD-1","amount":1000,"currency":"CNY"}"#;

fn keyed(uri: &str, key: &str, body: &str) -> Request<Body> {
    let request = post(uri).header("idempotency-key", key);
    request.body(Body::from(body.to_owned())).unwrap()
}

async fn ask(app: &TestApp, uri: &str, key: &str, body: &str) -> Answer {
    app.send(keyed(uri, key, body)).await
}

/// Compares everything but the mark.
fn assert_replayed(first: &Answer, again: &Answer) {
    assert_eq!(first.header("idempotent-replayed"), None, "{first}");
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{again}");
    assert_eq!(again.status, first.status);
    assert_eq!(again.body, first.body);
    let mut headers = again.headers.clone();
    headers.remove("idempotent-replayed");
    headers.remove("content-length");
    let mut expect = first.headers.clone();
    expect.remove("content-length");
    assert_eq!(headers, expect);
}

#[tokio::test]
async fn the_same_request_gets_the_first_answer_again() {
    let app = TestApp::start().await;
    let created = ask(&app, "/v1/orders", "k1", ORDER).await;
    assert_eq!(created.status, 201, "{created}");
    app.pay("OD-1", "tx-1", 1000).await;
    let again = ask(&app, "/v1/orders", "k1", ORDER).await;
    assert_replayed(&created, &again);
    assert_eq!(again.header("location"), Some("/v1/orders/OD-1"));
    assert_eq!(again.header("etag"), Some(r#""1""#));
    // Without the key it is another request.
    assert_eq!(app.post("/v1/orders", ORDER).await.status, 200);

    let shipped = ask(&app, "/v1/orders/OD-1/ship", "k2", "").await;
    app.post("/v1/orders/OD-1/complete", "").await;
    assert_replayed(&shipped, &ask(&app, "/v1/orders/OD-1/ship", "k2", "").await);
    assert_eq!(shipped.json()["status"], "SHIPPED");
}

#[tokio::test]
async fn refusals_are_repeated_as_well() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let refused = ask(&app, "/v1/orders/OD-1/ship", "k1", "").await;
    refused.problem(409, "illegal-transition");
    app.pay("OD-1", "tx-1", 1000).await;
    assert_replayed(&refused, &ask(&app, "/v1/orders/OD-1/ship", "k1", "").await);
    let history = app.get("/v1/orders/OD-1/history").await.json();
    assert_eq!(history["items"].as_array().unwrap().len(), 3);

    for (key, uri, body, status) in [
        ("k2", "/v1/orders", "{}", 400),
        ("k3", "/v1/orders/OD-9/ship", "", 404),
        ("k4", "/v1/orders/a%20b/ship", "", 400),
        ("k5", "/v1/orders?x=1", ORDER, 400),
    ] {
        let first = ask(&app, uri, key, body).await;
        assert_eq!(first.status.as_u16(), status, "{first}");
        assert_replayed(&first, &ask(&app, uri, key, body).await);
    }
}

#[tokio::test]
async fn another_request_under_the_key_is_refused_running_or_not() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.create("OD-2").await;
    app.pay("OD-2", "tx-1", 1000).await;
    let (cancel, ship) = ("/v1/orders/OD-1/cancel", "/v1/orders/OD-2/ship");
    app.hold_key("running", cancel, "").await;
    ask(&app, cancel, "running", "")
        .await
        .problem(409, "idempotency-key-in-use");
    assert_eq!(ask(&app, cancel, "done", "").await.status, 200);
    for key in ["running", "done"] {
        for (uri, body) in [
            (ship, ""),
            (cancel, "{}"),
            ("/v1/orders/OD-1/cancel?", ""),
            ("/v1/orders", ORDER),
        ] {
            let answer = ask(&app, uri, key, body).await;
            answer.problem(422, "idempotency-key-reused");
            assert_eq!(answer.header("idempotent-replayed"), None);
        }
    }
    let order = app.get("/v1/orders/OD-2").await.json();
    assert_eq!(order["status"], "PAID");
}

#[tokio::test]
async fn keys_belong_to_their_token() {
    let closed = Closed::start(None).await;
    // Tokens of two names.
    let (shop, till) = ([Scope::OrdersWrite], Scope::ALL);
    let created = closed
        .send_as(&shop, keyed("/v1/orders", "k0", ORDER))
        .await;
    assert_eq!(created.status, 201, "{created}");
    let cancel = keyed("/v1/orders/OD-1/cancel", "k1", "");
    assert_eq!(closed.send_as(&shop, cancel).await.status, 200);
    let sent = || keyed("/v1/orders/OD-1/ship", "k1", "");
    closed
        .send_as(&till, sent())
        .await
        .problem(409, "illegal-transition");
    closed
        .send_as(&shop, sent())
        .await
        .problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn a_dead_holder_is_taken_over_after_the_request_deadline() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let cancel = "/v1/orders/OD-1/cancel";
    app.hold_key("k1", cancel, "").await;
    let at = |seconds| NOW + Duration::from_secs(seconds);
    let later = async |seconds: u64| {
        let store = app
            .store
            .with_options(|options| options.clock = Clock::Fixed(at(seconds)));
        let router = app.on(store);
        send(&router, keyed(cancel, "k1", "")).await
    };
    later(9).await.problem(409, "idempotency-key-in-use");
    let answer = later(10).await;
    assert_eq!(answer.json()["status"], "CANCELLED", "{answer}");
    assert_replayed(&answer, &later(11).await);
}

#[tokio::test]
async fn invalid_keys_are_refused() {
    let app = TestApp::start().await;
    let longest = "k".repeat(255);
    assert_eq!(ask(&app, "/v1/orders", &longest, ORDER).await.status, 201);
    assert_eq!(ask(&app, "/v1/orders", "!~", ORDER).await.status, 200);
    for key in [&"k".repeat(256), "", "a b", "a\tb", "é"] {
        let answer = ask(&app, "/v1/orders", key, ORDER).await;
        assert_eq!(answer.pointers(), ["Idempotency-Key"], "{key:?}");
    }
    let twice = post("/v1/orders")
        .header("idempotency-key", "k")
        .header("idempotency-key", "k");
    let answer = app.send(twice.body(Body::from(ORDER)).unwrap()).await;
    assert_eq!(answer.pointers(), ["Idempotency-Key"]);
    // Reads need no key and ignore it.
    let get = Request::get("/v1/orders/OD-1").header("idempotency-key", "a b");
    let answer = app.send(get.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_body_that_is_too_large_claims_no_key() {
    let app = TestApp::start().await;
    let large = format!("{ORDER}{}", " ".repeat(64 * 1024));
    ask(&app, "/v1/orders", "k1", &large)
        .await
        .problem(413, "payload-too-large");
    assert_eq!(ask(&app, "/v1/orders", "k1", ORDER).await.status, 201);
}

#[tokio::test]
async fn passing_problems_release_the_key_for_the_same_request() {
    let app = TestApp::start().await;
    for status in [401, 403, 412, 429, 500, 503] {
        let key = format!("k{status}");
        let request = |digest: &str| KeyedRequest {
            actor: "shop".to_owned(),
            key: key.clone(),
            digest: digest.to_owned(),
            holder: format!("{digest} {status}"),
        };
        let answer = async |digest: &str, status: u16| {
            let carried_out = async move {
                let status = StatusCode::from_u16(status).unwrap();
                (status, "said").into_response()
            };
            idempotency::answer(&app.store, request(digest), carried_out).await
        };
        assert_eq!(answer("d1", status).await.status().as_u16(), status);
        // Another request doesn't get it: the first one may have been carried out.
        assert_eq!(answer("d2", 200).await.status(), 422, "{status}");
        assert_eq!(answer("d1", 200).await.status(), 200, "{status}");
        let again = answer("d1", 500).await;
        assert_eq!(again.status(), 200, "{status}");
        assert_eq!(again.headers()["idempotent-replayed"], "true");
    }
}

/// Sends a request whose order is at `version`.
async fn expecting(app: &TestApp, version: i64) -> Answer {
    let cancel = post("/v1/orders/OD-1/cancel")
        .header("idempotency-key", "k1")
        .header("if-match", format!("\"{version}\""));
    app.send(cancel.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn another_version_than_expected_does_not_use_up_the_key() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    for _ in 0..2 {
        let refused = expecting(&app, 7).await;
        refused.problem(412, "precondition-failed");
        assert_eq!(refused.header("idempotent-replayed"), None, "{refused}");
    }
    // The key still belongs to that request.
    ask(&app, "/v1/orders/OD-1/ship", "k1", "")
        .await
        .problem(422, "idempotency-key-reused");
    let done = expecting(&app, 1).await;
    assert_eq!(done.json()["status"], "CANCELLED", "{done}");
    assert_replayed(&done, &expecting(&app, 7).await);
}

#[tokio::test]
async fn a_passing_answer_of_the_payment_service_does_not_use_up_the_key() {
    let cancel = "/v1/orders/OD-1/cancel";
    for (answer, fault, slug) in [
        (Said::pending(), None, "payment-pending"),
        (Said::absent(), None, "payment-state-unknown"),
        (
            Said::unpaid(),
            Some(Fault::Status(500)),
            "payment-state-unknown",
        ),
    ] {
        let mut script = Script::all(answer);
        if let Some(fault) = fault {
            script.always(fault);
        }
        let (app, mock) = asking(script).await;
        for _ in 0..2 {
            let refused = ask(&app, cancel, "k1", "").await;
            refused.problem(409, slug);
            assert_eq!(refused.header("idempotent-replayed"), None, "{refused}");
        }
        assert_eq!(mock.asked().questions, 2, "{slug}");
        ask(&app, cancel, "k1", "{}")
            .await
            .problem(422, "idempotency-key-reused");
        mock.script(|script| *script = Script::all(Said::unpaid_for_good()));
        let done = ask(&app, cancel, "k1", "").await;
        assert_eq!(done.json()["status"], "CANCELLED", "{done}");
        assert_replayed(&done, &ask(&app, cancel, "k1", "").await);
    }
}

#[tokio::test]
async fn a_run_in_progress_does_not_use_up_the_key() {
    let app = TestApp::start().await;
    let runs = "/v1/reconciliations";
    let begun = app.post(runs, "").await;
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    ask(&app, runs, "k1", "")
        .await
        .problem(409, "already-running");
    ask(&app, runs, "k1", "{}")
        .await
        .problem(422, "idempotency-key-reused");
    let ended = app
        .store
        .end_run(id, RunState::Done, RunCounts::default(), Vec::new());
    ended.await.unwrap();
    app.begun.lock().await.recv().await.unwrap();
    let second = ask(&app, runs, "k1", "").await;
    assert_eq!(second.status, 202, "{second}");
    assert_replayed(&second, &ask(&app, runs, "k1", "").await);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_sent_and_not_stored() {
    let app = TestApp::start().await;
    for holder in ["h1", "h2"] {
        let request = KeyedRequest {
            actor: "shop".to_owned(),
            key: "k1".to_owned(),
            digest: "d1".to_owned(),
            holder: holder.to_owned(),
        };
        let carried_out = async { "x".repeat(256 * 1024 + 1).into_response() };
        let answer = idempotency::answer(&app.store, request, carried_out).await;
        assert_eq!(answer.status(), 200);
        assert!(!answer.headers().contains_key("idempotent-replayed"));
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        assert_eq!(body.unwrap().len(), 256 * 1024 + 1);
    }
}

#[tokio::test]
async fn a_command_whose_answer_was_not_stored_is_carried_out_again() {
    let app = TestApp::start().await;
    // The process died between the two: the order exists, and the holder of the key is dead.
    app.create("OD-1").await;
    app.hold_key("k1", "/v1/orders", ORDER).await;
    let later = NOW + Duration::from_secs(10);
    let store = app
        .store
        .with_options(|options| options.clock = Clock::Fixed(later));
    let router = app.on(store);
    let answer = send(&router, keyed("/v1/orders", "k1", ORDER)).await;
    assert_eq!(answer.status, 200, "{answer}");
    let history = app.get("/v1/orders/OD-1/history").await.json();
    assert_eq!(history["items"].as_array().unwrap().len(), 1);
}
