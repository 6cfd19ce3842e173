//! `POST /v1/orders/{order_id}/ship`, `/complete`, `/cancel`.

use axum::body::Body;
use axum::http::Request;

use super::app::{TestApp, post};

#[tokio::test]
async fn an_order_is_shipped_and_completed_once() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 1000).await;
    insta::assert_snapshot!(
        app.post("/v1/orders/OD-1/ship", r#"{"reason":"van 7"}"#)
            .await
    );
    for (verb, status, version) in [
        ("ship", "SHIPPED", 3),
        ("complete", "DONE", 4),
        ("complete", "DONE", 4),
    ] {
        let order = app
            .post(&format!("/v1/orders/OD-1/{verb}"), "{}")
            .await
            .json();
        assert_eq!(
            (order["status"].as_str(), order["version"].as_i64()),
            (Some(status), Some(version))
        );
    }
}

#[tokio::test]
async fn an_illegal_transition_names_the_actor_that_moved_the_order() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    // A refusal of the version before must not be taken for the step.
    app.pay("OD-1", "tx-0", 999).await;
    app.pay("OD-1", "tx-1", 1000).await;
    insta::assert_snapshot!(app.post("/v1/orders/OD-1/complete", "").await);
    app.post("/v1/orders/OD-1/cancel", "")
        .await
        .problem(409, "illegal-transition");

    app.create("OD-2").await;
    app.post("/v1/orders/OD-2/cancel", r#"{"reason":"changed my mind"}"#)
        .await;
    let problem = app
        .post("/v1/orders/OD-2/ship", "")
        .await
        .problem(409, "illegal-transition");
    assert_eq!(problem["moved_by"]["reason"], "changed my mind");
    assert_eq!(problem["moved_by"]["actor"], "anonymous");
    assert_eq!(problem["order_status"], "CANCELLED");
}

#[tokio::test]
async fn an_order_money_was_received_for_is_not_cancelled() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-0", 999).await;
    insta::assert_snapshot!(app.post("/v1/orders/OD-1/cancel", "").await);
    assert_eq!(
        app.get("/v1/orders/OD-1").await.json()["status"],
        "NOT_PAID"
    );
}

#[tokio::test]
async fn a_command_for_another_version_is_not_carried_out() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let cancel = async |tags: &str| {
        let request = post("/v1/orders/OD-1/cancel").header("if-match", tags);
        app.send(request.body(Body::empty()).unwrap()).await
    };
    insta::assert_snapshot!(cancel(r#""2""#).await);
    for tags in [r#"W/"1""#, "1", "", r#""x", "2""#] {
        cancel(tags).await.problem(412, "precondition-failed");
    }
    assert_eq!(cancel(r#""2", "1""#).await.json()["version"], 2);
    // The version is checked before the status.
    cancel(r#""1""#).await.problem(412, "precondition-failed");
    assert_eq!(cancel("*").await.json()["version"], 2);
    assert_eq!(cancel(r#""2""#).await.json()["version"], 2);
}

#[tokio::test]
async fn refusals_are_in_the_history_as_they_were_answered() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-0", 999).await;
    for verb in ["ship", "ship", "cancel"] {
        app.post(&format!("/v1/orders/OD-1/{verb}"), "").await;
    }
    let history = app.get("/v1/orders/OD-1/history").await.json();
    let refused = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            (text("actor") == "anonymous" && text("outcome") == "refused")
                .then(|| format!("{} {}", text("event"), text("reason")))
        });
    assert_eq!(
        refused.collect::<Vec<_>>(),
        ["cancel payment-recorded", "ship illegal-transition"]
    );
}

#[tokio::test]
async fn an_unknown_order_is_not_found() {
    let app = TestApp::start().await;
    for verb in ["ship", "complete", "cancel"] {
        app.post(&format!("/v1/orders/OD-1/{verb}"), "")
            .await
            .problem(404, "not-found");
    }
}

#[tokio::test]
async fn a_body_is_optional_and_then_needs_no_type() {
    let app = TestApp::start().await;
    for (id, body, content_type) in [
        ("OD-1", "", None),
        ("OD-2", "", Some("application/json")),
        ("OD-3", "", Some("text/plain")),
        ("OD-4", "{}", Some("application/json")),
        (
            "OD-5",
            r#" {"reason": null} "#,
            Some("application/json; charset=utf-8"),
        ),
    ] {
        app.create(id).await;
        let mut request = Request::post(format!("/v1/orders/{id}/cancel"));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let answer = app.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.json()["status"], "CANCELLED", "{id}: {answer}");
    }
    let untyped = Request::post("/v1/orders/OD-1/cancel")
        .body(Body::from("{}"))
        .unwrap();
    app.send(untyped)
        .await
        .problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn reasons_have_limits() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let (long, longer) = ("é".repeat(500), "é".repeat(501));
    for (reason, expect) in [
        (r#""""#.to_owned(), "/reason"),
        (format!(r#""{longer}""#), "/reason"),
        (r#""a\u0000b""#.to_owned(), "/reason"),
        (r#""\ud800""#.to_owned(), "/reason"),
        ("7".to_owned(), "/reason"),
    ] {
        let answer = app
            .post(
                "/v1/orders/OD-1/cancel",
                format!(r#"{{"reason":{reason}}}"#),
            )
            .await;
        assert_eq!(answer.pointers(), [expect], "{reason}");
    }
    let answer = app
        .post(
            "/v1/orders/OD-1/cancel",
            format!(r#"{{"reason":"{long}"}}"#),
        )
        .await;
    assert_eq!(answer.json()["status"], "CANCELLED", "{answer}");
}
