//! `GET /v1/orders/{order_id}`.

use axum::body::Body;
use axum::http::{Method, Request};

use super::app::{TestApp, get};

#[tokio::test]
async fn an_order_is_answered_with_its_version_as_tag() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.pay("OD-1", "tx-1", 1000).await;
    insta::assert_snapshot!(app.get("/v1/orders/OD-1").await);
}

#[tokio::test]
async fn an_unknown_order_is_not_found() {
    let app = TestApp::start().await;
    insta::assert_snapshot!(app.get("/v1/orders/OD-1").await);
}

#[tokio::test]
async fn an_order_that_the_caller_has_is_not_sent_again() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let ask = async |tags: &str| {
        let request = get("/v1/orders/OD-1").header("if-none-match", tags);
        app.send(request.body(Body::empty()).unwrap()).await
    };
    insta::assert_snapshot!(ask(r#""1""#).await);
    for (tags, expect) in [
        ("*", 304),
        (r#"W/"1""#, 304),
        (r#""0", "1""#, 304),
        (r#""2""#, 200),
        ("1", 200),
    ] {
        assert_eq!(ask(tags).await.status.as_u16(), expect, "{tags}");
    }
    app.pay("OD-1", "tx-1", 1000).await;
    assert_eq!(ask(r#""1""#).await.header("etag"), Some(r#""2""#));

    let unknown = get("/v1/orders/OD-2").header("if-none-match", "*");
    app.send(unknown.body(Body::empty()).unwrap())
        .await
        .problem(404, "not-found");
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    for uri in [
        "/v1/orders/OD-1",
        "/v1/orders/OD-1/history",
        "/v1/payments",
        "/livez",
        "/v1/orders/x",
    ] {
        let mut get = app.get(uri).await;
        let head = Request::builder()
            .method(Method::HEAD)
            .uri(uri)
            .body(Body::empty())
            .unwrap();
        let head = app.send(head).await;
        assert_eq!(head.status, get.status, "{uri}");
        assert_eq!(head.body, b"", "{uri}");
        let length = get
            .headers
            .remove("content-length")
            .or_else(|| Some(get.body.len().into()));
        assert_eq!(head.headers.get("content-length"), length.as_ref(), "{uri}");
        assert_eq!(head.header("etag"), get.header("etag"), "{uri}");
    }
}

#[tokio::test]
async fn an_invalid_id_is_refused_by_name() {
    let app = TestApp::start().await;
    insta::assert_snapshot!(app.get("/v1/orders/-1").await);
    let long = "x".repeat(65);
    for id in [
        &long,
        "%00",
        "a%00",
        "%ff",
        "a%2Fb",
        "a%20b",
        "%E2%82%AC",
        ".a",
        "a;b",
        "a+b",
    ] {
        for rest in ["", "/history", "/payments"] {
            let answer = app.get(&format!("/v1/orders/{id}{rest}")).await;
            assert_eq!(answer.pointers(), ["{order_id}"], "{id}{rest}");
        }
        let answer = app.post(&format!("/v1/orders/{id}/ship"), "").await;
        assert_eq!(answer.pointers(), ["{order_id}"], "{id}");
    }
}
