//! Without tokens: what a page of another site can't do.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Version};

use super::access::Closed;
use super::app::{Answer, TestApp, post};
use super::serve::start;

const COMMANDS: [&str; 7] = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "X"];

/// A request with these headers, `Host` among them or not.
async fn ask(app: &TestApp, method: &str, uri: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    app.send(request.body(Body::empty()).unwrap()).await
}

fn assert_forbidden(answer: &Answer, about: &str) {
    assert_eq!(answer.status, 403, "{about}: {answer}");
    assert_eq!(answer.header("www-authenticate"), None, "{about}");
}

#[tokio::test]
async fn a_request_must_be_addressed_to_this_machine() {
    let app = TestApp::start().await;
    for host in [
        "localhost",
        "localhost:8080",
        "localhost:",
        "LOCALHOST:9",
        "localhost.",
        "localhost.:8080",
        "orderd.localhost:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.1.2.3:1",
        "[::1]",
        "[::1]:8080",
        "[::ffff:127.0.0.1]:8080",
    ] {
        let answer = ask(&app, "GET", "/livez", &[("host", host)]).await;
        assert_eq!(answer.status, 200, "{host}: {answer}");
    }
    for host in [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:8080.evil.example",
        "localhost:80:80",
        "localhost:99999",
        "localhost:x",
        "ann@localhost",
        "localhost, evil.example",
        "10.0.0.1:8080",
        "0.0.0.0:8080",
        "::1",
        "[::1",
        "[::1]x",
        "[2001:db8::1]:8080",
        "[::ffff:10.0.0.1]",
        " ",
        "",
    ] {
        for (method, uri) in [
            ("GET", "/livez"),
            ("GET", "/readyz"),
            ("GET", "/metrics"),
            ("GET", "/docs/"),
            ("GET", "/openapi.json"),
            ("GET", "/v1/orders"),
            ("HEAD", "/v1/orders"),
            // Before the answer reveals which paths exist.
            ("GET", "/nothing"),
            ("POST", "/livez"),
            ("POST", "/v1/orders"),
        ] {
            let answer = ask(&app, method, uri, &[("host", host)]).await;
            assert_forbidden(&answer, &format!("{method} {uri} {host:?}"));
        }
        let problem = ask(&app, "GET", "/livez", &[("host", host)]).await;
        let problem = problem.problem(403, "forbidden");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("ORDERD_TOKENS_FILE"), "{detail}");
    }
}

#[tokio::test]
async fn the_host_is_given_once() {
    let app = TestApp::start().await;
    let answer = ask(
        &app,
        "GET",
        "/livez",
        &[("host", "localhost"), ("host", "localhost")],
    )
    .await;
    assert_eq!(answer.pointers(), ["Host"]);
    for hosts in [["localhost", "evil.example"], ["evil.example", "localhost"]] {
        let answer = ask(&app, "GET", "/livez", &hosts.map(|host| ("host", host))).await;
        assert_forbidden(&answer, &format!("{hosts:?}"));
    }
    // Bytes that aren't text.
    let mut request = Request::new(Body::empty());
    let host = HeaderValue::from_bytes(b"localhost\xff").unwrap();
    request.headers_mut().insert("host", host);
    assert_forbidden(&app.send(request).await, "no text");
}

/// The form that proxies receive; it takes precedence over `Host`.
#[tokio::test]
async fn an_absolute_target_is_addressed_to_this_machine_as_well() {
    let app = TestApp::start().await;
    for (target, host, status) in [
        ("http://localhost:8080/livez", "localhost:8080", 200),
        ("http://127.0.0.1/livez", "localhost", 200),
        ("http://ann@localhost/livez", "localhost", 200),
        ("http://evil.example/livez", "localhost", 403),
        ("http://localhost@evil.example/livez", "localhost", 403),
        ("http://localhost/livez", "evil.example", 403),
    ] {
        let answer = ask(&app, "GET", target, &[("host", host)]).await;
        assert_eq!(answer.status, status, "{target} {host}: {answer}");
    }
}

#[tokio::test]
async fn only_http_1_0_may_leave_the_host_out() {
    let app = TestApp::start().await;
    let server = start(app.router.clone());
    for (request, status) in [
        ("GET /livez HTTP/1.0\r\n\r\n", "200 OK"),
        (
            "GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n",
            "400 Bad Request",
        ),
        (
            "GET http://localhost/livez HTTP/1.1\r\nconnection: close\r\n\r\n",
            "200 OK",
        ),
        (
            "GET http://evil.example/livez HTTP/1.0\r\n\r\n",
            "403 Forbidden",
        ),
        (
            "POST /v1/orders/O1/ship HTTP/1.0\r\norigin: http://localhost\r\n\r\n",
            "403 Forbidden",
        ),
    ] {
        let answer = super::serve::read(server.connect(request).await).await;
        let line = answer.lines().next().unwrap_or_default();
        assert!(line.ends_with(status), "{request:?}: {answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_command_from_a_page_of_another_origin_is_refused() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let (host, at) = ("localhost:8080", "/v1/orders/OD-1/ship");
    for (name, value) in [
        ("origin", "http://localhost:8080"),
        ("origin", "https://localhost:8080"),
        ("origin", "http://LOCALHOST:8080"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
        ("x-none", ""),
    ] {
        let answer = ask(&app, "POST", at, &[("host", host), (name, value)]).await;
        answer.problem(409, "illegal-transition");
    }
    let foreign = [
        ("origin", "http://evil.example"),
        ("origin", "http://localhost"),
        ("origin", "http://localhost:3000"),
        ("origin", "http://127.0.0.1:8080"),
        ("origin", "http://localhost:8080.evil.example"),
        ("origin", "http://localhost:8080/"),
        ("origin", "http://ann@localhost:8080"),
        ("origin", "ws://localhost:8080"),
        ("origin", "chrome-extension://localhost:8080"),
        ("origin", "localhost:8080"),
        ("origin", "null"),
        ("origin", ""),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "Same-Origin"),
        ("sec-fetch-site", ""),
    ];
    for (name, value) in foreign {
        for method in COMMANDS {
            // Whatever the path: the answer doesn't reveal which ones exist.
            for uri in [at, "/v1/orders", "/livez", "/nothing"] {
                let answer = ask(&app, method, uri, &[("host", host), (name, value)]).await;
                assert_forbidden(&answer, &format!("{method} {uri} {name}: {value}"));
            }
        }
        let problem = ask(&app, "POST", at, &[("host", host), (name, value)]).await;
        problem.problem(403, "forbidden");
        // Reading is up to the browser, which keeps the answer from the page.
        for method in ["GET", "HEAD"] {
            let answer = ask(
                &app,
                method,
                "/v1/orders/OD-1",
                &[("host", host), (name, value)],
            )
            .await;
            assert_eq!(answer.status, 200, "{method} {name}: {value}: {answer}");
        }
    }
    // One foreign origin is enough.
    let own = ("origin", "http://localhost:8080");
    for (name, value) in foreign {
        let both = [
            ("host", host),
            own,
            ("sec-fetch-site", "same-origin"),
            (name, value),
        ];
        assert_forbidden(&ask(&app, "POST", at, &both).await, value);
    }
    let history = app.get("/v1/orders/OD-1/history").await.json();
    let refused = &history["items"].as_array().unwrap()[1..];
    assert!(
        refused
            .iter()
            .all(|item| item["reason"] == "illegal-transition")
    );
    // The default port.
    for (host, origin) in [
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost"),
        ("[::1]", "http://[::1]"),
    ] {
        let answer = ask(&app, "POST", at, &[("host", host), ("origin", origin)]).await;
        answer.problem(409, "illegal-transition");
    }
}

#[tokio::test]
async fn a_foreign_command_uses_up_neither_the_rate_nor_a_key() {
    let mut app = TestApp::start().await;
    let state = app.state.clone();
    app.router = crate::http::router(state.with_rate_limit(std::num::NonZeroU32::new(1)));
    let order = r#"{"order_id":"OD-1","amount":1000,"currency":"CNY"}"#;
    let create = |origin: &str| {
        let request = post("/v1/orders").header("idempotency-key", "k1");
        let request = request.header("origin", origin).body(order.into());
        request.unwrap()
    };
    for _ in 0..3 {
        let answer = app.send(create("http://evil.example")).await;
        answer.problem(403, "forbidden");
    }
    let answer = app.send(create("http://localhost:8080")).await;
    assert_eq!(answer.status, 201, "{answer}");
}

/// Callers with a token may come from any origin, by any name.
#[tokio::test]
async fn with_tokens_neither_host_nor_origin_matter() {
    let closed = Closed::start(None).await;
    let scopes = crate::tokens::Scope::ALL;
    for host in ["orders.example", "localhost:8080"] {
        let request = Request::post("/v1/orders/OD-9/ship")
            .header("host", host)
            .header("origin", "https://shop.example")
            .header("sec-fetch-site", "cross-site");
        let request = request.body(Body::empty()).unwrap();
        closed
            .send_as(&scopes, request)
            .await
            .problem(404, "not-found");
    }
    let mut bare = Request::new(Body::empty());
    *bare.method_mut() = Method::GET;
    *bare.version_mut() = Version::HTTP_10;
    *bare.uri_mut() = "/v1/orders".parse().unwrap();
    closed.send_as(&scopes, bare).await;
}
