//! Runs over HTTP, and the question before a cancellation.

use std::time::Duration;

use axum::body::Body;
use order_payment_mock::{Answer, Fault, Mock, Payment, RetryAfter, Script};
use order_store::Store;
use serde_json::{Value, json};

use super::app::{TestApp, get, post};
use crate::payment_service::PaymentService;

/// With a payment service that answers by this script.
pub(super) async fn asking(script: Script) -> (TestApp, Mock) {
    let (mock, url) = Mock::over_http(script).await.unwrap();
    let service = |store: &Store| Some(PaymentService::at(&url, store, Duration::ZERO));
    let app = TestApp::start_asking(service).await;
    app.create("OD-1").await;
    (app, mock)
}

/// With a payment service that knows this of every order.
async fn answering(answer: Answer) -> (TestApp, Mock) {
    asking(Script::all(answer)).await
}

fn paid(amount: u64) -> Answer {
    Answer::paid(Payment::new("acme", "tx-1", amount, "CNY"))
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
async fn a_run_is_started_read_and_listed() {
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
async fn an_unknown_run_is_not_found_and_unknown_members_are_refused() {
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
async fn a_run_without_a_job_to_carry_it_out_fails() {
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
    for answer in [Answer::unpaid(), Answer::unpaid_for_good()] {
        let (app, mock) = answering(answer).await;
        let answer = app
            .post("/v1/orders/OD-1/cancel", r#"{"reason":"changed my mind"}"#)
            .await;
        assert_eq!(answer.json()["status"], "CANCELLED", "{answer}");
        assert_eq!(mock.asked().questions, 1);
        // Already cancelled: no question is needed.
        let again = app.post("/v1/orders/OD-1/cancel", "").await;
        assert_eq!(again.status, 200);
        assert_eq!(mock.asked().questions, 1);
    }
}

#[tokio::test]
async fn an_order_that_the_payment_service_knows_as_paid_is_paid_and_not_cancelled() {
    let (app, _mock) = answering(paid(1000)).await;
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
    let (app, _mock) = answering(paid(999)).await;
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
    let refund = Payment::new("acme", "rf-1", 1000, "CNY");
    let (app, _mock) = answering(Answer::refunded(refund)).await;
    let answer = app.post("/v1/orders/OD-1/cancel", "").await;
    assert_eq!(answer.json()["status"], "CANCELLED", "{answer}");
    let payments = app.get("/v1/orders/OD-1/payments").await.json();
    assert_eq!(payments["items"][0]["verdict"], "REVERSED");
    assert_eq!(payments["items"][0]["source"], "reconciliation");
}

#[tokio::test]
async fn an_order_is_not_cancelled_while_its_payment_is_pending_or_unknown() {
    let unpaid_and = |text: &str| Answer::unpaid_for_good().and(Answer::raw(text));
    for (answer, slug) in [
        (Answer::pending(), "payment-pending"),
        (Answer::unknown(), "payment-state-unknown"),
        (Answer::absent(), "payment-state-unknown"),
        (unpaid_and("1"), "payment-state-unknown"),
        (
            unpaid_and(r#"{"order_id":"OD-1"}"#),
            "payment-state-unknown",
        ),
    ] {
        let (app, _mock) = answering(answer).await;
        app.post("/v1/orders/OD-1/cancel", "")
            .await
            .problem(409, slug);
        assert_eq!(order_status(&app).await, "NOT_PAID");
        assert_eq!(refusals(&app).await, [format!("1 {slug}")]);
    }
}

#[tokio::test]
async fn an_unusable_reply_of_the_payment_service_counts_as_unknown() {
    for fault in [Fault::Status(500), Fault::Html] {
        let mut script = Script::all(Answer::unpaid_for_good());
        script.always(fault);
        let (app, _mock) = asking(script).await;
        let answer = app.post("/v1/orders/OD-1/cancel", "").await;
        answer.problem(409, "payment-state-unknown");
    }
}

/// The payment service isn't asked about the second order: the 503 says so and isn't stored under the key.
#[tokio::test]
async fn while_the_payment_service_may_not_be_asked_cancelling_is_unavailable() {
    let mut script = Script::all(Answer::unpaid_for_good());
    script.always(Fault::TooMany(RetryAfter::Seconds(3600)));
    let (app, mock) = asking(script).await;
    let asked = app.post("/v1/orders/OD-1/cancel", "").await;
    asked.problem(409, "payment-state-unknown");
    let held_back = app.post("/v1/orders/OD-1/cancel", "").await;
    held_back.problem(503, "unavailable");
    assert_eq!(mock.asked().questions, 1);
    assert_eq!(refusals(&app).await, ["1 payment-state-unknown"]);
}

#[tokio::test]
async fn the_answer_says_until_when_the_payment_service_may_not_be_asked() {
    const TEN_YEARS: u32 = 10 * 365 * 24 * 3600;
    for (named, seconds) in [
        (RetryAfter::Seconds(90), 90),
        (RetryAfter::Seconds(3600), 3600),
        (RetryAfter::Seconds(TEN_YEARS), 3600),
        (RetryAfter::Date(TEN_YEARS), 3600),
    ] {
        let mut script = Script::all(Answer::unpaid_for_good());
        script.always(Fault::Unavailable(named));
        let (app, mock) = asking(script).await;
        let asked = app.post("/v1/orders/OD-1/cancel", "").await;
        asked.problem(409, "payment-state-unknown");
        let held_back = app.post("/v1/orders/OD-1/cancel", "").await;
        let problem = held_back.problem(503, "unavailable");
        let pause = seconds.to_string();
        assert_eq!(held_back.header("retry-after"), Some(pause.as_str()));
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("in {pause} s, at 2")), "{detail}");
        assert_eq!(mock.asked().questions, 1, "{named:?}");
    }
}

#[tokio::test]
async fn another_version_comes_before_the_question() {
    let (app, mock) = answering(paid(1000)).await;
    let request = post("/v1/orders/OD-1/cancel").header("if-match", "\"7\"");
    let answer = app.send(request.body(Body::empty()).unwrap()).await;
    answer.problem(412, "precondition-failed");
    assert_eq!(mock.asked().questions, 0);
    let missing = app
        .send(get("/v1/orders/OD-9").body(Body::empty()).unwrap())
        .await;
    missing.problem(404, "not-found");
}

/// Replies about a payment whose exception a person closed, and what a cancellation is answered.
#[tokio::test]
async fn an_order_whose_money_was_refunded_by_a_person_can_be_cancelled() {
    let cases = [
        ("refunded", None, Ok("CANCELLED")),
        ("written_off", None, Ok("CANCELLED")),
        ("refunded", Some(Answer::unpaid()), Ok("CANCELLED")),
        ("refunded", Some(Answer::unpaid_for_good()), Ok("CANCELLED")),
        (
            "refunded",
            Some(Answer::refunded(Payment::new("acme", "r-1", 999, "CNY"))),
            Ok("CANCELLED"),
        ),
        ("refunded", Some(Answer::pending()), Err("payment-pending")),
        (
            "refunded",
            Some(Answer::unknown()),
            Err("payment-state-unknown"),
        ),
        (
            "refunded",
            Some(Answer::raw("{}")),
            Err("payment-state-unknown"),
        ),
        (
            "refunded",
            Some(Answer::paid(Payment::new("acme", "tx-2", 999, "CNY"))),
            Err("payment-recorded"),
        ),
        ("nothing", None, Err("payment-recorded")),
    ];
    for (resolution, rest, expected) in cases {
        let (app, mock) = answering(paid(999)).await;
        app.post("/v1/orders/OD-1/cancel", "")
            .await
            .problem(409, "payment-recorded");
        let exceptions = app.get("/v1/payment-exceptions").await.json();
        let id = exceptions["items"][0]["id"].as_str().unwrap();
        if resolution != "nothing" {
            let body = json!({"resolution": resolution, "note": "sent back"}).to_string();
            let closed = app
                .post(&format!("/v1/payment-exceptions/{id}/close"), body)
                .await;
            assert_eq!(closed.status, 200, "{closed}");
        }
        if let Some(rest) = rest {
            mock.script(|script| *script = Script::all(paid(999).and(rest)));
        }
        let answer = app.post("/v1/orders/OD-1/cancel", "").await;
        match expected {
            Ok(status) => assert_eq!(answer.json()["status"], status, "{resolution}: {answer}"),
            Err(slug) => drop(answer.problem(409, slug)),
        }
    }
}

/// The payment service closes a kept connection, once or always.
#[tokio::test]
async fn a_question_whose_connection_is_closed_is_asked_once_more() {
    for (hung_up, status) in [(1, 200), (2, 409), (9, 409)] {
        let (app, mock) = answering(Answer::unpaid_for_good()).await;
        // Opens the connection that is kept.
        app.create("WARM").await;
        let warm = app.post("/v1/orders/WARM/cancel", "").await;
        assert_eq!(warm.status, 200, "{warm}");
        for _ in 0..hung_up {
            mock.script(|script| script.next(Fault::HangUp));
        }
        let answer = app.post("/v1/orders/OD-1/cancel", "").await;
        assert_eq!(answer.status, status, "{answer}");
        assert_eq!(mock.asked().questions, 3, "{hung_up}");
        if status == 409 {
            let problem = answer.problem(409, "payment-state-unknown");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("closed the connection"), "{detail}");
        }
    }
}

/// An answer that began counts as one, although it is truncated.
#[tokio::test]
async fn a_question_with_a_truncated_answer_is_not_repeated() {
    let mut script = Script::all(Answer::unpaid_for_good());
    script.always(Fault::CutOff);
    let (app, mock) = asking(script).await;
    let answer = app.post("/v1/orders/OD-1/cancel", "").await;
    answer.problem(409, "payment-state-unknown");
    assert_eq!(mock.asked().questions, 1);
}
