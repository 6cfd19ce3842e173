//! Runs over HTTP, and the question before a cancellation.

use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};

use super::app::{TestApp, get, post};
use crate::payment_service::stub::{Say, Stub, paid, unpaid_for_good};

/// With a payment service that answers every question with these entries.
async fn answering(entries: Vec<Value>) -> (TestApp, Stub) {
    let stub = Stub::start(move |_| Say::Entries(entries.clone())).await;
    let app = TestApp::start_asking(|store| Some(stub.service(store, Duration::ZERO))).await;
    app.create("OD-1").await;
    (app, stub)
}

async fn order_status(app: &TestApp) -> Value {
    app.get("/v1/orders/OD-1").await.json()["status"].clone()
}

/// The refusals in the history, as `version reason`.
async fn refusals(app: &TestApp) -> Vec<String> {
    let history = app.get("/v1/orders/OD-1/history").await.json();
    let items = history["items"].as_array().unwrap().iter();
    let refused = items.filter(|item| item["outcome"] == "refused");
    refused
        .map(|item| format!("{} {}", item["version"], item["reason"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_run_is_begun_read_and_listed() {
    let app = TestApp::start().await;
    let begun = app.post("/v1/reconciliations", r#"{"dry_run":true}"#).await;
    assert_eq!(begun.status, 202, "{begun}");
    let run = begun.json();
    let id = run["id"].as_str().unwrap();
    let place = format!("/v1/reconciliations/{id}");
    assert_eq!(begun.header("location"), Some(place.as_str()));
    let expected = json!({
        "id": id, "state": "running", "dry_run": true, "trigger": "api",
        "started_at": "2026-11-29T08:00:00.123456Z", "finished_at": null,
        "asked": 0, "healed": 0, "cancelled": 0, "pending": 0, "unknown": 0, "raced": 0,
        "settled": 0, "findings": [],
    });
    assert_eq!(run, expected);
    assert_eq!(app.get(&place).await.json(), expected);
    assert_eq!(
        app.get("/v1/reconciliations").await.json()["items"],
        json!([expected])
    );
    assert_eq!(app.begun.lock().await.recv().await.unwrap().id, id);

    let another = app.post("/v1/reconciliations", "").await;
    assert_eq!(another.problem(409, "already-running")["id"], id);
}

#[tokio::test]
async fn what_is_no_run_is_not_found_and_no_command_has_other_members() {
    let app = TestApp::start().await;
    for id in ["0", "A", "0123456789abcdef0123456789abcdef"] {
        app.get(&format!("/v1/reconciliations/{id}"))
            .await
            .problem(404, "not-found");
    }
    for (body, pointer) in [
        (r#"{"dry_run":"yes"}"#, "/dry_run"),
        (r#"{"dry":true}"#, "/dry"),
    ] {
        let refused = app.post("/v1/reconciliations", body).await;
        assert_eq!(refused.pointers(), [pointer]);
    }
}

#[tokio::test]
async fn a_run_that_nobody_carries_out_is_no_run() {
    let app = TestApp::start().await;
    app.begun.lock().await.close();
    app.post("/v1/reconciliations", "")
        .await
        .problem(503, "unavailable");
    let runs = app.get("/v1/reconciliations").await.json();
    assert_eq!(runs["items"][0]["state"], "failed");
}

#[tokio::test]
async fn an_unpaid_order_is_cancelled_after_the_payment_service_said_so() {
    for entry in [
        json!({"order_id": "OD-1", "state": "unpaid"}),
        unpaid_for_good("OD-1"),
    ] {
        let (app, stub) = answering(vec![entry]).await;
        let answer = app
            .post("/v1/orders/OD-1/cancel", r#"{"reason":"changed my mind"}"#)
            .await;
        assert_eq!(answer.json()["status"], "CANCELLED", "{answer}");
        assert_eq!(stub.asked().len(), 1);
        // Already there: nobody has to be asked.
        let again = app.post("/v1/orders/OD-1/cancel", "").await;
        assert_eq!(again.status, 200);
        assert_eq!(stub.asked().len(), 1);
    }
}

#[tokio::test]
async fn an_order_that_the_payment_service_knows_as_paid_is_paid_and_not_cancelled() {
    let (app, _stub) = answering(vec![paid("OD-1", "tx-1", 1000)]).await;
    app.post("/v1/orders/OD-1/cancel", "")
        .await
        .problem(409, "payment-recorded");
    assert_eq!(order_status(&app).await, "PAID");
    assert_eq!(refusals(&app).await, ["2 payment-recorded"]);
    app.post("/v1/orders/OD-1/cancel", "")
        .await
        .problem(409, "illegal-transition");
}

#[tokio::test]
async fn a_payment_that_does_not_fit_holds_the_order_as_well() {
    let (app, _stub) = answering(vec![paid("OD-1", "tx-1", 999)]).await;
    for _ in 0..2 {
        app.post("/v1/orders/OD-1/cancel", "")
            .await
            .problem(409, "payment-recorded");
    }
    assert_eq!(order_status(&app).await, "NOT_PAID");
    let exceptions = app.get("/v1/payment-exceptions").await.json();
    assert_eq!(exceptions["items"][0]["verdict"], "AMOUNT_MISMATCH");
    assert_eq!(exceptions["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refunded_order_is_recorded_and_cancelled() {
    let mut refunded = paid("OD-1", "rf-1", 1000);
    refunded["state"] = json!("refunded");
    let (app, _stub) = answering(vec![refunded]).await;
    let answer = app.post("/v1/orders/OD-1/cancel", "").await;
    assert_eq!(answer.json()["status"], "CANCELLED", "{answer}");
    let payments = app.get("/v1/orders/OD-1/payments").await.json();
    assert_eq!(payments["items"][0]["verdict"], "REVERSED");
    assert_eq!(payments["items"][0]["source"], "reconciliation");
}

#[tokio::test]
async fn nobody_cancels_while_a_payment_is_on_its_way_or_nobody_knows() {
    let pending = json!({"order_id": "OD-1", "state": "pending"});
    for (entries, slug) in [
        (vec![pending], "payment-pending"),
        (
            vec![json!({"order_id": "OD-1", "state": "unknown"})],
            "payment-state-unknown",
        ),
        (vec![], "payment-state-unknown"),
        (
            vec![unpaid_for_good("OD-1"), json!(1)],
            "payment-state-unknown",
        ),
        (
            vec![unpaid_for_good("OD-1"), json!({"order_id": "OD-1"})],
            "payment-state-unknown",
        ),
    ] {
        let (app, _stub) = answering(entries).await;
        app.post("/v1/orders/OD-1/cancel", "")
            .await
            .problem(409, slug);
        assert_eq!(order_status(&app).await, "NOT_PAID");
        assert_eq!(refusals(&app).await, [format!("1 {slug}")]);
    }
}

#[tokio::test]
async fn a_payment_service_that_answers_nothing_usable_is_unknown() {
    for say in [
        Say::status("500 Internal Server Error"),
        Say::body("<html>"),
    ] {
        let stub = Stub::start(move |_| say.clone()).await;
        let app = TestApp::start_asking(|store| Some(stub.service(store, Duration::ZERO))).await;
        app.create("OD-1").await;
        let answer = app.post("/v1/orders/OD-1/cancel", "").await;
        answer.problem(409, "payment-state-unknown");
    }
}

/// Nobody was asked about the second: that is no answer, and none to be kept.
#[tokio::test]
async fn a_payment_service_that_must_not_be_asked_now_is_worth_another_try() {
    let stub = Stub::start(|_| {
        Say::Raw(
            "429 Too Many Requests",
            "retry-after: 3600\r\n".to_owned(),
            String::new(),
        )
    })
    .await;
    let app = TestApp::start_asking(|store| Some(stub.service(store, Duration::ZERO))).await;
    app.create("OD-1").await;
    let asked = app.post("/v1/orders/OD-1/cancel", "").await;
    asked.problem(409, "payment-state-unknown");
    let held_back = app.post("/v1/orders/OD-1/cancel", "").await;
    held_back.problem(503, "unavailable");
    assert_eq!(stub.asked().len(), 1);
    assert_eq!(refusals(&app).await, ["1 payment-state-unknown"]);
}

#[tokio::test]
async fn another_version_comes_before_the_question() {
    let (app, stub) = answering(vec![paid("OD-1", "tx-1", 1000)]).await;
    let request = post("/v1/orders/OD-1/cancel").header("if-match", "\"7\"");
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    answer.problem(412, "precondition-failed");
    assert!(stub.asked().is_empty());
    let missing = app
        .send(get("/v1/orders/OD-9").body(Body::empty()).unwrap())
        .await;
    missing.problem(404, "not-found");
}
