//! Which callers are allowed, at every route.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode};
use serde_json::Value;

use super::app::{Answer, TestApp};
use crate::http::openapi;
use crate::http::server::access::Access;
use crate::http::{openapi_json, router};
use crate::tokens::{NewToken, Scope, Tokens, issue};

/// The API with tokens.
pub(super) struct Closed {
    app: TestApp,
    folder: std::path::PathBuf,
    secrets: Vec<(Vec<Scope>, String)>,
    expired: String,
}

impl Drop for Closed {
    fn drop(&mut self) {
        // If this fails, a file stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Closed {
    /// With a token for each scope, one for all of them, and one that has expired.
    pub(super) async fn start(rate_limit: Option<u32>) -> Self {
        let mut app = TestApp::start().await;
        let folder = std::env::temp_dir().join(order_testkit::unique_name("orderd_access"));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("tokens");
        let mut secrets = Vec::new();
        for scopes in [
            vec![Scope::OrdersRead],
            vec![Scope::OrdersWrite],
            vec![Scope::Ops],
            Scope::ALL.to_vec(),
        ] {
            let new = NewToken {
                name: format!("holder-of-{}", scopes.len()).parse().unwrap(),
                scopes: scopes.clone(),
                expires: None,
            };
            let mut secret = String::new();
            issue(&file, &new, |made| {
                secret.push_str(made);
                Ok(())
            })
            .unwrap();
            secrets.push((scopes, secret));
        }
        let expired = "an-expired-secret".to_owned();
        let digest = "sha256:DIGEST".replace("DIGEST", EXPIRED_DIGEST);
        let text = std::fs::read_to_string(&file).unwrap();
        let line = format!("late orders:read,orders:write,ops 2020-01-01T00:00:00Z {digest}\n");
        std::fs::write(&file, text + &line).unwrap();
        let state = app.state.clone();
        app.router = router(
            state
                .with_tokens(Some(Tokens::load(&file).unwrap()))
                .with_rate_limit(rate_limit.and_then(NonZeroU32::new)),
        );
        Self {
            app,
            folder,
            secrets,
            expired,
        }
    }

    pub(super) fn router(&self) -> Router {
        self.app.router.clone()
    }

    pub(super) fn secret(&self, scopes: &[Scope]) -> &str {
        let found = self.secrets.iter().find(|(known, _)| known == scopes);
        &found.unwrap().1
    }

    pub(super) async fn ask(
        &self,
        method: &Method,
        uri: &str,
        authorization: Option<&str>,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/json");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        self.app.send(request.body("{}".into()).unwrap()).await
    }

    /// Sends a request in the name of the token with these scopes.
    pub(super) async fn send_as(&self, scopes: &[Scope], mut request: Request<Body>) -> Answer {
        let authorization = format!("Bearer {}", self.secret(scopes));
        let headers = request.headers_mut();
        headers.insert("authorization", authorization.parse().unwrap());
        self.app.send(request).await
    }

    pub(super) async fn ask_as(&self, scopes: &[Scope], method: &Method, uri: &str) -> Answer {
        let authorization = format!("Bearer {}", self.secret(scopes));
        self.ask(method, uri, Some(&authorization)).await
    }
}

const EXPIRED_DIGEST: &str = "25838169bb24c7a6a1305d3cf29c463c8a81be3bdb32cb7cc7795915528b1d69";

/// Every operation of the document: its method, a path, and what it needs as documented.
fn operations() -> Vec<(Method, String, Option<Scope>)> {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let security = operation["security"].as_array().unwrap();
            let scope = security[0].get("token").map(|scopes| {
                let [scope] = scopes.as_array().unwrap().as_slice() else {
                    panic!("{method} {path} needs one scope");
                };
                scope.as_str().unwrap().parse().unwrap()
            });
            let method = method.to_uppercase().parse().unwrap();
            let path = path.replace("{order_id}", "OD-1").replace("{id}", "ab");
            assert!(!path.contains('{'), "{path}: give its part a value here");
            found.push((method, path, scope));
        }
    }
    found
}

/// The scopes that the API promises.
fn agreed(method: &Method, path: &str) -> Option<Scope> {
    match path
        .split('/')
        .nth(if path.starts_with("/v1/") { 2 } else { 1 })
    {
        Some("orders" | "payments") if method == Method::GET => Some(Scope::OrdersRead),
        Some("orders") => Some(Scope::OrdersWrite),
        Some("payment-exceptions" | "dead-letters" | "reconciliations" | "metrics") => {
            Some(Scope::Ops)
        }
        Some("livez" | "readyz" | "openapi.json") => None,
        _ => panic!("{method} {path}: which scope was agreed on?"),
    }
}

#[test]
fn every_operation_declares_the_scope_that_was_agreed_on() {
    for (method, path, scope) in operations() {
        assert_eq!(scope, agreed(&method, &path), "{method} {path}");
    }
}

#[test]
#[should_panic(expected = "its #[utoipa::path] must say security")]
fn an_operation_without_a_scope_is_not_served() {
    let mut document = openapi();
    let item = document.paths.paths.get_mut("/v1/payments").unwrap();
    item.get.as_mut().unwrap().security = None;
    Access::new(None, None, &document);
}

#[test]
#[should_panic(expected = "its #[utoipa::path] must say security")]
fn an_unknown_scope_is_not_served() {
    use utoipa::openapi::security::SecurityRequirement;

    let mut document = openapi();
    let item = document.paths.paths.get_mut("/v1/payments").unwrap();
    let unknown = SecurityRequirement::new("token", ["orders"]);
    item.get.as_mut().unwrap().security = Some(vec![unknown]);
    Access::new(None, None, &document);
}

#[tokio::test]
async fn every_route_allows_holders_of_its_scope_and_no_other_caller() {
    let closed = Closed::start(None).await;
    let expired = format!("Bearer {}", closed.expired);
    let good = closed.secret(&Scope::ALL);
    let strangers = [
        None,
        Some("Bearer nobody-s"),
        Some("Bearer"),
        Some(""),
        Some(good),
        Some("Basic YWJj"),
        Some(expired.as_str()),
    ];
    let mut asked = 0;
    for (method, path, scope) in operations() {
        let methods = [method.clone(), Method::HEAD];
        let heads = if method == Method::GET { 2 } else { 1 };
        for method in &methods[..heads] {
            for stranger in strangers {
                let answer = closed.ask(method, &path, stranger).await;
                let about = format!("{method} {path} {stranger:?} {answer}");
                asked += 1;
                if scope.is_none() {
                    assert!(!is_refusal(&answer), "{about}");
                    continue;
                }
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{about}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{about}");
                if method != Method::HEAD {
                    answer.problem(401, "unauthenticated");
                }
            }
            for (scopes, _) in &closed.secrets {
                let answer = closed.ask_as(scopes, method, &path).await;
                let about = format!("{method} {path} {scopes:?} {answer}");
                asked += 1;
                match scope {
                    Some(scope) if !scopes.contains(&scope) => {
                        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{about}");
                        if method != Method::HEAD {
                            let problem = answer.problem(403, "forbidden");
                            let detail = problem["detail"].as_str().unwrap();
                            assert!(detail.ends_with(scope.as_str()), "{about}");
                        }
                    }
                    _ => assert!(!is_refusal(&answer), "{about}"),
                }
            }
        }
    }
    assert!(asked > 200, "{asked}");
}

fn is_refusal(answer: &Answer) -> bool {
    matches!(
        answer.status,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
    )
}

#[tokio::test]
async fn callers_without_a_token_do_not_learn_which_paths_and_methods_exist() {
    let closed = Closed::start(None).await;
    for (method, path, known) in [
        (Method::GET, "/v1/nothing", 404),
        (Method::GET, "/v1", 404),
        (Method::DELETE, "/v1/orders/OD-1", 405),
        (Method::OPTIONS, "/v1/orders", 405),
        (Method::POST, "/metrics", 405),
    ] {
        let answer = closed.ask(&method, path, None).await;
        answer.problem(401, "unauthenticated");
        let answer = closed.ask_as(&[Scope::Ops], &method, path).await;
        assert_eq!(answer.status.as_u16(), known, "{method} {path}");
    }
    for (method, path, expect) in [
        (Method::POST, "/livez", 405),
        (Method::GET, "/docs/", 200),
        (Method::GET, "/docs/nothing.js", 404),
        // Where the console is, if it is on.
        (Method::GET, "/", 404),
        (Method::GET, "/console", 404),
        (Method::GET, "/openapi.json", 200),
    ] {
        let answer = closed.ask(&method, path, None).await;
        assert_eq!(answer.status.as_u16(), expect, "{method} {path}");
    }
}

#[tokio::test]
async fn one_authorization_is_enough() {
    let closed = Closed::start(None).await;
    let good = format!("Bearer {}", closed.secret(&Scope::ALL));
    let request = Request::get("/v1/orders/OD-1")
        .header("authorization", &good)
        .header("authorization", &good);
    let answer = closed.app.send(request.body(Body::empty()).unwrap()).await;
    answer.problem(401, "unauthenticated");
}

#[tokio::test]
async fn the_body_of_a_caller_without_a_token_is_not_waited_for() {
    const CHUNK: usize = 64 * 1024;
    let closed = Closed::start(None).await;
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = taken.clone();
    let endless = futures_util::stream::repeat_with(move || {
        counter.fetch_add(CHUNK, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(vec![b' '; CHUNK]))
    });
    let silent = futures_util::stream::pending::<Result<Bytes, Infallible>>();
    for body in [Body::from_stream(endless), Body::from_stream(silent)] {
        let request = Request::post("/v1/orders").header("content-type", "application/json");
        let asked = closed.app.send(request.body(body).unwrap());
        let answer = tokio::time::timeout(Duration::from_secs(10), asked).await;
        let answer = answer.expect("an answer, whatever becomes of the body");
        answer.problem(401, "unauthenticated");
        assert_eq!(answer.header("connection"), Some("close"), "{answer}");
    }
    let taken = taken.load(Ordering::Relaxed);
    assert!((1..=1024 * 1024 + CHUNK).contains(&taken), "{taken}");
    // A body that has arrived completely doesn't end the connection.
    let answer = closed.ask(&Method::POST, "/v1/orders", None).await;
    answer.problem(401, "unauthenticated");
    assert_eq!(answer.header("connection"), None, "{answer}");
}

#[tokio::test]
async fn the_history_names_the_token() {
    let closed = Closed::start(None).await;
    let order = r#"{"order_id":"OD-1","amount":1,"currency":"CNY"}"#;
    for (uri, body) in [("/v1/orders", order), ("/v1/orders/OD-1/cancel", "")] {
        let bearer = format!("Bearer {}", closed.secret(&Scope::ALL));
        let request = Request::post(uri)
            .header("content-type", "application/json")
            .header("authorization", bearer);
        let answer = closed.app.send(request.body(body.into()).unwrap()).await;
        assert!(answer.status.is_success(), "{answer}");
    }
    let path = "/v1/orders/OD-1/history";
    let history = closed
        .ask_as(&[Scope::OrdersRead], &Method::GET, path)
        .await;
    let items = history.json()["items"].as_array().unwrap().clone();
    let actors: Vec<&str> = items.iter().map(|i| i["actor"].as_str().unwrap()).collect();
    assert_eq!(actors, ["holder-of-3", "holder-of-3"]);
}

#[tokio::test]
async fn a_rate_limited_token_gets_a_retry_after() {
    let closed = Closed::start(Some(2)).await;
    // From here on no request reads the database, whose clock isn't the paused one.
    tokio::time::pause();
    let orders = "/v1/nothing";
    let read = &[Scope::OrdersRead][..];
    for _ in 0..2 {
        let answer = closed.ask_as(read, &Method::GET, orders).await;
        answer.problem(404, "not-found");
    }
    let answer = closed.ask_as(read, &Method::GET, orders).await;
    answer.problem(429, "rate-limited");
    assert_eq!(answer.header("retry-after"), Some("1"));
    // Other tokens have a rate of their own; operations outside of /v1 have none.
    let answer = closed.ask_as(&Scope::ALL, &Method::GET, orders).await;
    answer.problem(404, "not-found");
    for _ in 0..5 {
        for open in ["/livez", "/openapi.json"] {
            let answer = closed.ask(&Method::GET, open, None).await;
            assert_eq!(answer.status, 200, "{answer}");
        }
        let metrics = closed.ask_as(&[Scope::Ops], &Method::GET, "/metrics").await;
        assert_eq!(metrics.status, 200, "{metrics}");
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let answer = closed.ask_as(read, &Method::GET, orders).await;
    answer.problem(404, "not-found");
}

#[tokio::test]
async fn without_tokens_all_callers_share_the_rate() {
    let mut app = TestApp::start().await;
    let state = app.state.clone();
    app.router = router(state.with_rate_limit(NonZeroU32::new(1)));
    tokio::time::pause();
    app.get("/v1/nothing").await.problem(404, "not-found");
    let again = app.get("/v1/anything").await;
    again.problem(429, "rate-limited");
    assert_eq!(app.get("/metrics").await.status, 200);
}
