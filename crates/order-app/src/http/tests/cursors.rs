//! Cursors that are broken, foreign or forged.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::app::TestApp;

async fn app() -> TestApp {
    let app = TestApp::start().await;
    for id in ["OD-1", "OD-2"] {
        app.create(id).await;
        for n in 0..3 {
            app.pay(id, &format!("{id}-{n}"), 500).await;
        }
    }
    app
}

async fn cursor(app: &TestApp, list: &str) -> String {
    app.get(list).await.json()["next_cursor"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_cursor_is_only_valid_for_its_list_and_filters() {
    let app = app().await;
    let lists = [
        "/v1/payments?limit=1",
        "/v1/payments?limit=1&provider=acme",
        "/v1/payments?limit=1&verdict=AMOUNT_MISMATCH",
        "/v1/payments?limit=1&provider=acme&verdict=AMOUNT_MISMATCH",
        "/v1/orders/OD-1/payments?limit=1",
        "/v1/orders/OD-2/payments?limit=1",
        "/v1/orders/OD-1/history?limit=1",
        "/v1/orders/OD-2/history?limit=1",
        "/v1/orders?limit=1",
        "/v1/orders?limit=1&status=NOT_PAID",
        "/v1/orders?limit=1&created_after=2026-11-29T08:00:00Z",
        "/v1/orders?limit=1&created_before=2026-11-29T09:00:00Z",
        "/v1/orders?limit=1&created_before=2026-11-29T09:00:00.000000001Z",
    ];
    for of in lists {
        let cursor = cursor(&app, of).await;
        for at in lists {
            let answer = app.get(&format!("{at}&cursor={cursor}")).await;
            if of == at {
                assert_eq!(answer.status, 200, "{of}");
            } else {
                assert_eq!(answer.pointers(), ["?cursor"], "{of} at {at}");
            }
        }
        // The page size isn't a filter.
        let other_limit = of.replace("limit=1", "limit=2");
        assert_eq!(
            app.get(&format!("{other_limit}&cursor={cursor}"))
                .await
                .status,
            200,
            "{of}"
        );
    }
}

#[tokio::test]
async fn a_broken_cursor_is_refused() {
    let app = app().await;
    for list in [
        "/v1/payments?limit=1",
        "/v1/orders/OD-1/history?limit=1",
        "/v1/orders?limit=1",
    ] {
        let whole = cursor(&app, list).await;
        for length in 0..whole.len() {
            let answer = app
                .get(&format!("{list}&cursor={}", &whole[..length]))
                .await;
            assert_eq!(answer.pointers(), ["?cursor"], "{length} of {whole}");
        }
        for garbage in [
            "!",
            "AAAA",
            "bnVsbA",
            "W10",
            "%00",
            "%ff",
            &format!("{whole}="),
            &format!("{whole}AA"),
        ] {
            let answer = app.get(&format!("{list}&cursor={garbage}")).await;
            assert_eq!(answer.pointers(), ["?cursor"], "{garbage}");
        }
        assert_eq!(
            app.get(&format!("{list}&cursor={whole}&cursor={whole}"))
                .await
                .pointers(),
            ["?cursor"]
        );
    }
    insta::assert_snapshot!(app.get("/v1/payments?cursor=garbage").await);
}

#[tokio::test]
async fn a_forged_cursor_never_sends_the_database_an_invalid_value() {
    let app = app().await;
    let forge = async |list: &str, change: &dyn Fn(&mut Value)| {
        let whole = cursor(&app, list).await;
        let mut token: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(whole).unwrap()).unwrap();
        change(&mut token[1]);
        let forged = URL_SAFE_NO_PAD.encode(token.to_string());
        app.get(&format!("{list}&cursor={forged}")).await
    };
    let payments = "/v1/orders/OD-1/payments?limit=1";
    let history = "/v1/orders/OD-1/history?limit=1";
    let orders = "/v1/orders?limit=1";
    for (list, part, value) in [
        (orders, 0, json!(i64::MIN)),
        (orders, 0, json!("1")),
        (orders, 1, json!("")),
        (orders, 1, json!("a\0")),
        (payments, 0, json!(i64::MAX)),
        (payments, 0, json!(i64::MIN)),
        (payments, 0, json!(-100_000_000_000_000_000_i64)),
        (payments, 0, json!(1.5)),
        (payments, 1, json!("a\0")),
        (payments, 2, json!("")),
        (payments, 3, json!("\u{fffd}")),
        (history, 0, json!("1")),
        (history, 2, json!(i64::MIN)),
        (history, 3, json!("\0")),
        (history, 4, json!("\0")),
        (history, 5, json!("\0")),
        (history, 6, json!("\0")),
    ] {
        let answer = forge(list, &|parts| parts[part] = value.clone()).await;
        assert_eq!(answer.pointers(), ["?cursor"], "{list} {part} {value}");
    }
    for version in [i64::MIN, i64::MAX] {
        let answer = forge(history, &|parts| parts[0] = json!(version)).await;
        assert_eq!(answer.status, 200, "{answer}");
    }
}
