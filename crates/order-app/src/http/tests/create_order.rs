//! `POST /v1/orders`.

use axum::http::StatusCode;

use super::app::TestApp;

const BODY: &str = r#"{"order_id":"OD-1","amount":1000,"currency":"CNY"}"#;

#[tokio::test]
async fn a_new_order_is_answered_with_its_location() {
    let app = TestApp::start().await;
    insta::assert_snapshot!(app.post("/v1/orders", BODY).await);
}

#[tokio::test]
async fn the_same_order_again_is_no_error() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 1000).await;
    insta::assert_snapshot!(app.post("/v1/orders", BODY).await);
}

#[tokio::test]
async fn a_payment_that_waited_is_applied_with_the_creation() {
    let app = TestApp::start().await;
    app.pay("OD-1", "tx-1", 1000).await;
    insta::assert_snapshot!(app.create("OD-1").await);
}

#[tokio::test]
async fn another_order_under_the_same_id_is_a_conflict() {
    let app = TestApp::start().await;
    let with_pay_by =
        r#"{"order_id":"OD-2","amount":1,"currency":"EUR","pay_by":"2026-12-01T00:00:00+02:00"}"#;
    app.create("OD-1").await;
    app.post("/v1/orders", with_pay_by).await;

    let other = app.post("/v1/orders", BODY.replace("1000", "1001")).await;
    insta::assert_snapshot!(other);
    for (body, expect) in [
        (BODY.replace("CNY", "USD"), 409),
        // Leaving out the default again is the same order.
        (BODY.to_owned(), 200),
        (BODY.replace('}', r#","pay_by":null}"#), 200),
        (
            BODY.replace('}', r#","pay_by":"2026-11-29T08:30:00.123456Z"}"#),
            200,
        ),
        (
            BODY.replace('}', r#","pay_by":"2026-11-29T08:30:00Z"}"#),
            409,
        ),
        (with_pay_by.to_owned(), 200),
        (
            with_pay_by.replace("2026-12-01T00:00:00+02:00", "2026-11-30T22:00:00.0000004Z"),
            200,
        ),
        (with_pay_by.replace("2026-12", "2027-12"), 409),
        (
            with_pay_by.replace(r#","pay_by":"2026-12-01T00:00:00+02:00""#, ""),
            200,
        ),
    ] {
        let answer = app.post("/v1/orders", body.clone()).await;
        assert_eq!(answer.status.as_u16(), expect, "{body}: {answer}");
    }
}

#[tokio::test]
async fn limits_are_inclusive() {
    let app = TestApp::start().await;
    let id = "A".repeat(64);
    for (id, amount, pay_by) in [
        (
            id.as_str(),
            "9007199254740991",
            "9999-12-31T23:59:59.999999Z",
        ),
        ("0", "1", "0000-01-01T00:00:00Z"),
        ("a.B_c:d-9", "1", "1970-01-01T00:00:00+00:00"),
    ] {
        let body = format!(
            r#"{{"order_id":"{id}","amount":{amount},"currency":"XAU","pay_by":"{pay_by}"}}"#
        );
        let answer = app.post("/v1/orders", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer}");
        assert_eq!(answer.json()["amount"].to_string(), amount);
        let path = format!("/v1/orders/{id}");
        assert_eq!(answer.header("location"), Some(path.as_str()));
        assert_eq!(app.get(&path).await.status, StatusCode::OK);
    }
}
