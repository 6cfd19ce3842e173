//! Query parameters.

use super::app::TestApp;

#[tokio::test]
async fn parameters_that_are_wrong_unknown_or_given_twice_are_refused_by_name() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    for (uri, expect) in [
        ("/v1/payments?limit=0", "?limit"),
        ("/v1/payments?limit=201", "?limit"),
        ("/v1/payments?limit=-1", "?limit"),
        ("/v1/payments?limit=%2B5", "?limit"),
        ("/v1/payments?limit=5.0", "?limit"),
        ("/v1/payments?limit=", "?limit"),
        ("/v1/payments?limit", "?limit"),
        ("/v1/payments?limit=99999999999999999999", "?limit"),
        ("/v1/payments?limit=1&limit=1", "?limit"),
        ("/v1/payments?Limit=1", "?Limit"),
        ("/v1/payments?provider=ACME", "?provider"),
        ("/v1/payments?provider=", "?provider"),
        ("/v1/payments?provider=a%00b", "?provider"),
        ("/v1/payments?provider=%ff", "?provider"),
        ("/v1/payments?transaction_id=%20", "?transaction_id"),
        ("/v1/payments?verdict=applied", "?verdict"),
        ("/v1/payments?verdict=APPLIED&verdict=APPLIED", "?verdict"),
        ("/v1/payments?order_id=OD-1", "?order_id"),
        ("/v1/payments?a%20b=", "?a b"),
        ("/v1/payments?=", "?"),
        ("/v1/orders/OD-1?limit=1", "?limit"),
        ("/v1/orders/OD-1/history?verdict=APPLIED", "?verdict"),
        ("/v1/orders/OD-1/payments?provider=acme", "?provider"),
    ] {
        assert_eq!(app.get(uri).await.pointers(), [expect], "{uri}");
    }
    for uri in ["/v1/orders?dry_run=1", "/v1/orders/OD-1/ship?dry_run=1"] {
        let body = r#"{"order_id":"OD-1","amount":1000,"currency":"CNY"}"#;
        assert_eq!(app.post(uri, body).await.pointers(), ["?dry_run"], "{uri}");
    }
}

#[tokio::test]
async fn a_plus_that_was_read_as_a_space_is_explained() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let status = async |value: &str| {
        let uri = format!("/v1/orders?created_after={value}");
        app.get(&uri).await.status.as_u16()
    };
    for name in ["created_after", "created_before"] {
        for (value, is_hinted) in [
            ("2026-11-29T08:00:00+01:00", true),
            ("2026-11-29+08:00:00.5+01:00", true),
            ("2026-11-29T08:00:00%2001:00", true),
            ("2026-11-29T08:00:00", false),
            ("2026-11-29T08:00:00+", false),
            ("2026-11-29T08:00:00+Z", false),
            ("2026-11-29x08:00:00Z", false),
            ("+", false),
        ] {
            let answer = app.get(&format!("/v1/orders?{name}={value}")).await;
            assert_eq!(answer.pointers(), [format!("?{name}")], "{value}");
            let detail = answer.json()["errors"][0]["detail"].to_string();
            assert_eq!(detail.contains("%2B"), is_hinted, "{value}: {detail}");
            let detail = answer.json()["detail"].to_string();
            assert_eq!(detail.contains("%2B"), is_hinted, "{value}: {detail}");
        }
    }
    for value in [
        "2026-11-29T08:00:00%2B01:00",
        "2026-11-29T08:00:00-01:00",
        "2026-11-29+08:00:00Z",
        "2026-11-29t08:00:00z",
    ] {
        assert_eq!(status(value).await, 200, "{value}");
    }
}

#[tokio::test]
async fn all_errors_of_a_query_are_reported_together() {
    let app = TestApp::start().await;
    let answer = app
        .get("/v1/payments?x=1&limit=0&provider=A&verdict=B&verdict=C")
        .await;
    insta::assert_snapshot!(answer);
}

#[tokio::test]
async fn every_documented_parameter_is_known() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    for uri in [
        "/v1/payments?limit=200&provider=acme&transaction_id=tx-1&verdict=APPLIED",
        "/v1/payments?",
        "/v1/orders/OD-1/history?limit=1",
        "/v1/orders/OD-1/payments?limit=1",
        "/livez?probe=1",
    ] {
        assert_eq!(app.get(uri).await.status, 200, "{uri}");
    }
}
