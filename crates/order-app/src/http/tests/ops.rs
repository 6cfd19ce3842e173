//! Exceptions and dead letters over HTTP.

use axum::http::StatusCode;
use order_store::{Batch, NewDeadLetter};
use serde_json::{Value, json};

use super::app::TestApp;

async fn exceptions(app: &TestApp, filters: &str) -> Vec<Value> {
    let list = app
        .get(&format!("/v1/payment-exceptions{filters}"))
        .await
        .json();
    list["items"].as_array().unwrap().clone()
}

async fn close(app: &TestApp, id: &Value, resolution: &str, note: &str) -> super::app::Answer {
    let body = json!({"resolution": resolution, "note": note}).to_string();
    app.post(
        &format!("/v1/payment-exceptions/{}/close", id.as_str().unwrap()),
        body,
    )
    .await
}

async fn keep(app: &TestApp, body: &str) -> String {
    let letter = NewDeadLetter {
        stream: "PAYMENTS".to_owned(),
        subject: "payments.events.acme".to_owned(),
        sequence: 7,
        headers: r#"{"Nats-Msg-Id":["x"]}"#.to_owned(),
        body: body.as_bytes().to_vec(),
        reason: "invalid-json",
        detail: "expected value at line 1 column 1".to_owned(),
    };
    let id = letter.id();
    let batch = Batch {
        facts: Vec::new(),
        dead_letters: vec![letter],
    };
    app.store.record_payments(batch).await.unwrap();
    id
}

fn event(order_id: &str, amount: i64) -> Value {
    json!({"event_id": "ev-1", "type": "payment.succeeded", "order_id": order_id,
           "provider": "acme", "transaction_id": "tx-1", "amount": amount, "currency": "CNY",
           "occurred_at": "2026-11-29T08:00:00Z"})
}

#[tokio::test]
async fn an_exception_is_listed_shown_and_has_every_documented_member() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 999).await;
    app.pay("OD-1", "tx-2", 1000).await;
    app.pay("OD-1", "tx-3", 1000).await;
    assert_eq!(exceptions(&app, "").await.len(), 2);
    assert_eq!(exceptions(&app, "?verdict=SECOND_PAYMENT").await.len(), 1);
    assert_eq!(exceptions(&app, "?order_id=OD-2").await.len(), 0);
    assert_eq!(exceptions(&app, "?state=closed").await.len(), 0);
    let open = exceptions(&app, "?state=open&order_id=OD-1&limit=1").await;
    let id = open[0]["id"].as_str().unwrap();
    let answer = app.get(&format!("/v1/payment-exceptions/{id}")).await;
    let mut members: Vec<_> = answer.json().as_object().unwrap().keys().cloned().collect();
    members.sort();
    let document: Value = serde_json::from_str(&crate::http::openapi_json()).unwrap();
    let schema = &document["components"]["schemas"]["PaymentException"];
    let mut documented: Vec<String> = schema["required"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m.as_str().unwrap().to_owned())
        .collect();
    documented.sort();
    assert_eq!(members, documented);
    for unknown in ["0".repeat(64), "x".to_owned(), "%00".to_owned()] {
        let path = format!("/v1/payment-exceptions/{unknown}");
        app.get(&path).await.problem(404, "not-found");
    }
}

#[tokio::test]
async fn an_accepted_mismatch_pays_and_a_second_one_names_the_first() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 999).await;
    app.pay("OD-1", "tx-2", 998).await;
    let open = exceptions(&app, "").await;
    let (first, second) = (&open[0]["id"], &open[1]["id"]);
    for _ in 0..2 {
        let closed = close(&app, first, "accepted", "rounding").await;
        assert_eq!(closed.status, StatusCode::OK, "{closed}");
        let closed = closed.json();
        assert_eq!(
            (&closed["state"], &closed["closed_by"]),
            (&json!("closed"), &json!("anonymous"))
        );
    }
    close(&app, first, "refunded", "rounding")
        .await
        .problem(409, "already-closed");
    let problem = close(&app, second, "accepted", "rounding")
        .await
        .problem(409, "illegal-transition");
    assert_eq!(problem["order_status"], "PAID");
    assert_eq!(problem["moved_by"]["reason"], "rounding");
    let path = format!("/v1/payment-exceptions/{}", first.as_str().unwrap());
    let accepted = app.get(&path).await.json();
    assert_eq!(problem["version"], 2);
    assert_eq!(problem["moved_by"]["actor"], "anonymous");
    assert_eq!(problem["moved_by"]["at"], accepted["closed_at"]);
    assert_eq!(
        problem["moved_by"]["transaction_id"],
        accepted["transaction_id"]
    );
    assert_eq!(exceptions(&app, "?state=open").await.len(), 1);
    let order = app.get("/v1/orders/OD-1").await.json();
    assert_eq!(
        (&order["status"], &order["version"]),
        (&json!("PAID"), &json!(2))
    );
}

#[tokio::test]
async fn conflicting_content_is_not_accepted_and_notes_are_required() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 1000).await;
    app.pay("OD-1", "tx-1", 5).await;
    let open = exceptions(&app, "").await;
    let id = &open[0]["id"];
    close(&app, id, "accepted", "x")
        .await
        .problem(409, "illegal-transition");
    close(&app, id, "settled", "x")
        .await
        .problem(400, "invalid-request");
    close(&app, id, "refunded", "")
        .await
        .problem(400, "invalid-request");
    assert_eq!(
        close(&app, id, "written_off", "x").await.status,
        StatusCode::OK
    );
    close(&app, &json!("0".repeat(64)), "refunded", "x")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_dead_letter_is_replayed_with_a_corrected_body() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let id = keep(&app, "not understood").await;
    let shown = app.get(&format!("/v1/dead-letters/{id}")).await.json();
    assert_eq!(shown["body_base64"], "bm90IHVuZGVyc3Rvb2Q=");
    assert_eq!(shown["headers"], json!({"Nats-Msg-Id": ["x"]}));

    let replay = format!("/v1/dead-letters/{id}/replay");
    let still = app.post(&replay, "").await.problem(400, "invalid-request");
    assert!(
        still["errors"][0]["detail"]
            .as_str()
            .unwrap()
            .starts_with("invalid-json")
    );
    let wrong = json!({"body": {"event_id": "ev-1"}}).to_string();
    let wrong = app
        .post(&replay, wrong)
        .await
        .problem(400, "invalid-request");
    assert_eq!(wrong["errors"][0]["pointer"], "/body");
    let other = json!({"body": "text"}).to_string();
    app.post(&replay, other)
        .await
        .problem(400, "invalid-request");

    let right = json!({"body": event("OD-1", 1000)}).to_string();
    let dry = app
        .post(&format!("{replay}?dry_run=true"), right.clone())
        .await
        .json();
    assert_eq!(
        (&dry["verdict"], &dry["applied"]),
        (&json!("APPLIED"), &json!(true))
    );
    assert_eq!(
        app.get("/v1/orders/OD-1").await.json()["status"],
        "NOT_PAID"
    );
    let replayed = app.post(&replay, right.clone()).await.json();
    assert_eq!(
        (&replayed["verdict"], &replayed["applied"]),
        (&json!("APPLIED"), &json!(true))
    );
    assert_eq!(app.get("/v1/orders/OD-1").await.json()["status"], "PAID");
    app.post(&replay, right)
        .await
        .problem(409, "already-closed");
    app.post(&format!("{replay}?dry_run=maybe"), "")
        .await
        .problem(400, "invalid-request");
    app.post(&format!("/v1/dead-letters/{}/replay", "0".repeat(64)), "")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn a_dead_letter_is_discarded_with_a_note() {
    let app = TestApp::start().await;
    let id = keep(&app, "junk").await;
    let discard = format!("/v1/dead-letters/{id}/discard");
    app.post(&discard, "{}")
        .await
        .problem(400, "invalid-request");
    for _ in 0..2 {
        let discarded = app.post(&discard, r#"{"note":"junk"}"#).await;
        assert_eq!(discarded.status, StatusCode::OK);
        assert_eq!(discarded.json()["state"], "discarded");
    }
    app.post(&discard, r#"{"note":"other"}"#)
        .await
        .problem(409, "already-closed");
    let open = app.get("/v1/dead-letters?state=open").await.json();
    assert!(open["items"].as_array().unwrap().is_empty());
    let all = app.get("/v1/dead-letters?limit=1").await.json();
    assert_eq!(all["items"][0]["note"], "junk");
    app.get("/v1/dead-letters?state=closed")
        .await
        .problem(400, "invalid-request");
}
