//! `GET /v1/orders/{order_id}/payments`.

use super::app::{TestApp, fact};

#[tokio::test]
async fn payments_are_listed_with_what_they_did() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 1000).await;
    let mut reconciled = fact("OD-1", "acme", "tx-2", "refunded", 10);
    reconciled.event_id = None;
    reconciled.source = order_store::Source::Reconciliation;
    app.tell(vec![reconciled]).await;
    insta::assert_snapshot!(app.get("/v1/orders/OD-1/payments").await);
}

#[tokio::test]
async fn payments_without_an_order_are_listed_too() {
    let app = TestApp::start().await;
    app.pay("OD-1", "tx-1", 1000).await;
    let page = app.get("/v1/orders/OD-1/payments").await.json();
    assert_eq!(page["items"][0]["verdict"], "WAITING_FOR_ORDER");
    assert_eq!(page["next_cursor"], serde_json::Value::Null);
}

#[tokio::test]
async fn an_order_without_payments_has_an_empty_list() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    insta::assert_snapshot!(app.get("/v1/orders/OD-1/payments").await);
}

#[tokio::test]
async fn an_id_without_order_and_payment_is_not_found() {
    let app = TestApp::start().await;
    insta::assert_snapshot!(app.get("/v1/orders/OD-1/payments").await);
}
