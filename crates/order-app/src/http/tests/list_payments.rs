//! `GET /v1/payments`.

use super::app::{TestApp, fact};

async fn transactions(app: &TestApp, query: &str) -> String {
    let page = app.get(&format!("/v1/payments{query}")).await.json();
    let items = page["items"].as_array().unwrap().iter();
    let names: Vec<String> = items
        .map(|item| {
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            format!(
                "{}/{}/{}",
                text("provider"),
                text("transaction_id"),
                text("kind")
            )
        })
        .collect();
    names.join(" ")
}

async fn app() -> TestApp {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.tell(vec![
        fact("OD-1", "acme", "tx-1", "failed", 1000),
        fact("OD-1", "acme", "tx-1", "succeeded", 1000),
        fact("OD-2", "acme", "tx-2", "succeeded", 1000),
        fact("OD-1", "bank", "tx-1", "succeeded", 1000),
        fact("OD-3", "bank", "tx-3", "chargeback_v2", 1000),
    ])
    .await;
    app
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let app = app().await;
    for (query, expect) in [
        (
            "",
            "acme/tx-1/failed acme/tx-1/succeeded acme/tx-2/succeeded bank/tx-1/succeeded \
             bank/tx-3/chargeback_v2",
        ),
        (
            "?provider=bank",
            "bank/tx-1/succeeded bank/tx-3/chargeback_v2",
        ),
        (
            "?transaction_id=tx-1",
            "acme/tx-1/failed acme/tx-1/succeeded bank/tx-1/succeeded",
        ),
        (
            "?provider=acme&transaction_id=tx-1",
            "acme/tx-1/failed acme/tx-1/succeeded",
        ),
        ("?verdict=WAITING_FOR_ORDER", "acme/tx-2/succeeded"),
        ("?verdict=SECOND_PAYMENT", "bank/tx-1/succeeded"),
        ("?verdict=APPLIED&provider=acme", "acme/tx-1/succeeded"),
        ("?verdict=UNSUPPORTED", "bank/tx-3/chargeback_v2"),
        ("?verdict=DUPLICATE", ""),
        ("?provider=nobody", ""),
    ] {
        assert_eq!(transactions(&app, query).await, expect, "{query}");
    }
}

#[tokio::test]
async fn a_page_of_filtered_payments_has_a_cursor() {
    let app = app().await;
    let first = app.get("/v1/payments?transaction_id=tx-1&limit=2").await;
    insta::assert_snapshot!(first);
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let rest = transactions(
        &app,
        &format!("?transaction_id=tx-1&limit=2&cursor={cursor}"),
    )
    .await;
    assert_eq!(rest, "bank/tx-1/succeeded");
}
