//! Bodies that can't be read.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::Request;

use super::app::{TestApp, post};

/// The pointers that a body of `POST /v1/orders` is refused with, nothing being created.
async fn check(app: &TestApp, body: impl Into<Vec<u8>>, expect: &[&str]) {
    let body = body.into();
    let shown = String::from_utf8_lossy(&body[..body.len().min(120)]).into_owned();
    assert_eq!(
        app.post("/v1/orders", body).await.pointers(),
        expect,
        "{shown}"
    );
}

#[tokio::test]
async fn a_body_that_is_not_a_json_object_is_refused_as_a_whole() {
    let app = TestApp::start().await;
    let deep = "[".repeat(60_000);
    let deep_member = format!(r#"{{"order_id":{}"#, "[".repeat(60_000));
    for body in [
        "",
        " ",
        "null",
        "1",
        "\"x\"",
        "[]",
        "[{}]",
        "true",
        "{",
        "}",
        "{}{}",
        "{} x",
        "{'a':1}",
        "{\"order_id\"}",
        "{\"order_id\":}",
        "{\"order_id\":\"OD-1\",}",
        "{order_id:\"OD-1\"}",
        "{\"amount\":01}",
        "{\"amount\":+1}",
        "{\"amount\":.5}",
        "{\"amount\":1.}",
        "{\"amount\":1e}",
        "{\"amount\":NaN}",
        "{\"amount\":Infinity}",
        "{\"amount\":-}",
        "{\"order_id\":\"a\nb\"}",
        "{\"order_id\":\"\\x\"}",
        "{\"\\ud800\":1}",
        "\u{feff}{}",
        &deep,
        &deep_member,
    ] {
        check(&app, body, &[""]).await;
    }
    check(&app, b"{\"order_id\":\"\xff\"}", &[""]).await;
    check(&app, b"{\"x\":\"\xed\xa0\x80\"}", &[""]).await;
    insta::assert_snapshot!(app.post("/v1/orders", r#"{"order_id":}"#).await);
}

/// Values that are invalid for their member, besides those that are invalid everywhere.
const WRONG: [(&str, &str); 4] = [
    (
        "amount",
        "0|-0|-1|1.0|1000.0|100.1|1e3|1E+3|1e-3|1e400|-1e400|1e999999999999|\"1000\"|\
         9007199254740992|9007199254740993|9223372036854775807|9223372036854775808|\
         1000000000000000000000000000000",
    ),
    (
        "order_id",
        r#"1|9007199254740993|"-a"|"a b"|"a\u0000"|"é"|" a""#,
    ),
    ("currency", r#"1|"cny"|"CN"|"CNYX"|"ZZZ"|"€"|"C\u0000Y""#),
    (
        "pay_by",
        "1764403200|\"2026-11-29\"|\"2026-11-29T08:00:00\"|\"2026-02-30T00:00:00Z\"|\
         \"2026-11-29T25:00:00Z\"|\"9999-12-31T23:59:59-01:00\"|\"10000-01-01T00:00:00Z\"|\"now\"",
    ),
];

const WRONG_EVERYWHERE: &str = r#"null|true|{}|[]|[1]|""|"\u0000"|"\ud83d"|"\udc00x""#;

/// An order whose member has this value.
fn with(name: &str, value: &str) -> String {
    let mut members = vec![
        ("order_id", "\"OD-1\""),
        ("amount", "1000"),
        ("currency", "\"CNY\""),
    ];
    members.retain(|(other, _)| *other != name);
    members.push((name, value));
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[tokio::test]
async fn every_member_is_validated_by_its_own_text() {
    let app = TestApp::start().await;
    for (name, wrong) in WRONG {
        let pointer = format!("/{name}");
        for value in wrong.split('|').chain(WRONG_EVERYWHERE.split('|')) {
            // Optional members may be null.
            if (name, value) != ("pay_by", "null") {
                check(&app, with(name, value), &[&pointer]).await;
            }
        }
    }
    let long = format!("\"{}\"", "x".repeat(65));
    check(&app, with("order_id", &long), &["/order_id"]).await;
    app.get("/v1/orders/OD-1").await.problem(404, "not-found");
    // Escaped text is the same text.
    let escaped = r#"{"\u006frder_id":"\u004fD-1","amount":1000,"currency":"CNY"}"#;
    assert_eq!(app.post("/v1/orders", escaped).await.status, 201);
}

#[tokio::test]
async fn all_errors_of_a_body_are_reported_together() {
    let app = TestApp::start().await;
    let body =
        r#"{"amount":1.5,"amount":2,"currency":"cny","pay_by":7,"a/b~c":[1e400,{}],"id":"OD-1"}"#;
    insta::assert_snapshot!(app.post("/v1/orders", body).await);
    check(&app, "{}", &["/order_id", "/amount", "/currency"]).await;
    check(
        &app,
        r#"{"order_id":"OD-1","order_id":"OD-2","amount":1,"currency":"CNY"}"#,
        &["/order_id"],
    )
    .await;
    let same = r#"{"order_id":"OD-1","order\u005fid":"OD-1","amount":1,"currency":"CNY"}"#;
    check(&app, same, &["/order_id"]).await;
}

#[tokio::test]
async fn the_answer_does_not_grow_with_the_number_of_errors() {
    let app = TestApp::start().await;
    let members: Vec<String> = (0..4000).map(|n| format!("\"{n}\":0")).collect();
    let answer = app
        .post("/v1/orders", format!("{{{}}}", members.join(",")))
        .await;
    assert_eq!(answer.pointers().len(), 32);
    let answer = app
        .post("/v1/orders", format!("{{\"{}\":0}}", "x".repeat(60_000)))
        .await;
    assert!(answer.body.len() < 1000, "{answer}");
}

#[tokio::test]
async fn only_json_is_read() {
    let app = TestApp::start().await;
    let body = r#"{"order_id":"OD-1","amount":1000,"currency":"CNY"}"#;
    for (name, value, expect) in [
        ("content-type", "application/json", 201),
        ("content-type", "Application/JSON ; charset=UTF-8", 200),
        ("content-type", "application/json;x=\"y\"", 200),
        ("content-type", "text/plain", 415),
        ("content-type", "application/problem+json", 415),
        ("content-type", "application/jsonp", 415),
        ("content-type", "", 415),
        ("x-none", "", 415),
    ] {
        let request = Request::post("/v1/orders")
            .header(name, value)
            .body(Body::from(body));
        let answer = app.send(request.unwrap()).await;
        assert_eq!(answer.status.as_u16(), expect, "{name}: {value}");
    }
    let twice = post("/v1/orders").header("content-type", "application/json");
    app.send(twice.body(Body::from(body)).unwrap())
        .await
        .problem(415, "unsupported-media-type");
    let packed = post("/v1/orders").header("content-encoding", "gzip");
    let answer = app.send(packed.body(Body::from(body)).unwrap()).await;
    insta::assert_snapshot!(answer);
}

#[tokio::test]
async fn a_body_may_have_64_kib() {
    let app = TestApp::start().await;
    let body = r#"{"order_id":"OD-1","amount":1000,"currency":"CNY"}"#;
    let padded = |bytes: usize| format!("{body}{}", " ".repeat(bytes - body.len()));
    assert_eq!(app.post("/v1/orders", padded(64 * 1024)).await.status, 201);
    insta::assert_snapshot!(app.post("/v1/orders", padded(64 * 1024 + 1)).await);
    for path in ["/v1/orders", "/v1/orders/OD-1/cancel"] {
        app.post(path, padded(64 * 1024 + 1))
            .await
            .problem(413, "payload-too-large");
        app.post(path, padded(3 * 1024 * 1024))
            .await
            .problem(413, "payload-too-large");
    }
    let announced = post("/v1/orders").header("expect", "100-continue");
    let announced = announced
        .header("content-length", "70000")
        .body(never_ending())
        .unwrap();
    app.send(announced).await.problem(413, "payload-too-large");
}

#[tokio::test]
async fn a_truncated_or_endless_body_is_a_client_error() {
    let app = TestApp::start().await;
    let broken = futures_util::stream::iter([
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::other("the peer is gone")),
    ]);
    let answer = app
        .send(post("/v1/orders").body(Body::from_stream(broken)).unwrap())
        .await;
    assert_eq!(answer.pointers(), [""]);
    let answer = app
        .send(post("/v1/orders").body(never_ending()).unwrap())
        .await;
    assert_eq!(answer.pointers(), [""]);
}

/// A body that never arrives.
fn never_ending() -> Body {
    Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>())
}
