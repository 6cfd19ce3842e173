//! `GET /v1/orders/{order_id}/history`.

use super::app::TestApp;

#[tokio::test]
async fn steps_and_refusals_are_listed_oldest_first() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-0", 999).await;
    app.pay("OD-1", "tx-1", 1000).await;
    app.post("/v1/orders/OD-1/ship", r#"{"reason":"van 7"}"#)
        .await;
    app.pay("OD-1", "tx-2", 1000).await;
    insta::assert_snapshot!(app.get("/v1/orders/OD-1/history").await);
}

#[tokio::test]
async fn an_unknown_order_has_no_history() {
    let app = TestApp::start().await;
    app.pay("OD-1", "tx-1", 1000).await;
    app.get("/v1/orders/OD-1/history")
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn pages_follow_one_another_without_gap_or_repetition() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    for n in 0..7 {
        app.pay("OD-1", &format!("tx-{n}"), 500 + n).await;
    }
    app.pay("OD-1", "tx-9", 1000).await;
    let whole = app.get("/v1/orders/OD-1/history").await.json();
    let whole = whole["items"].as_array().unwrap();
    assert_eq!(whole.len(), 9);
    for limit in [1, 2, 3, 8, 9, 10] {
        let (mut items, mut uri) = (Vec::new(), format!("/v1/orders/OD-1/history?limit={limit}"));
        loop {
            let page = app.get(&uri).await.json();
            items.extend(page["items"].as_array().unwrap().clone());
            let Some(cursor) = page["next_cursor"].as_str() else {
                break;
            };
            uri = format!("/v1/orders/OD-1/history?limit={limit}&cursor={cursor}");
        }
        assert_eq!(&items, whole, "limit {limit}");
    }
}
