//! `GET /v1/orders/{order_id}` with `Prefer: wait=N`.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Request};
use order_store::{Clock, Store, StoreOptions};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::app::{Answer, NOW, TestApp, send};
use crate::watch::Watch;

/// Longer than any test may take.
const LONG: &str = "wait=30";

fn waiting(order_id: &str, tags: &str, prefer: &str) -> Request<Body> {
    Request::get(format!("/v1/orders/{order_id}"))
        .header("if-none-match", tags)
        .header("prefer", prefer)
        .body(Body::empty())
        .unwrap()
}

/// Sends requests in tasks, and goes on when all of them wait.
async fn wait_all(app: &TestApp, requests: Vec<Request<Body>>) -> JoinSet<Answer> {
    let count = app.watch.waiters() + requests.len();
    let mut waiters = JoinSet::new();
    for request in requests {
        let router = app.router.clone();
        waiters.spawn(async move { send(&router, request).await });
    }
    let started = Instant::now();
    while app.watch.waiters() < count {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "no caller waits"
        );
        tokio::task::yield_now().await;
    }
    waiters
}

async fn one(mut waiters: JoinSet<Answer>) -> Answer {
    let ended = tokio::time::timeout(Duration::from_secs(10), waiters.join_next());
    ended
        .await
        .expect("the wait ends at once")
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn a_waiter_is_woken_by_a_step_of_this_process() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let waiters = wait_all(&app, vec![waiting("OD-1", r#""1""#, LONG)]).await;
    app.pay("OD-1", "tx-1", 1000).await;
    let answer = one(waiters).await;
    assert_eq!(answer.status, 200, "{answer}");
    assert_eq!(answer.header("etag"), Some(r#""2""#));
    assert_eq!(answer.header("preference-applied"), Some("wait=30"));
    assert_eq!(answer.json()["status"], "PAID");

    let waiters = wait_all(&app, vec![waiting("OD-1", r#""2""#, LONG)]).await;
    app.post("/v1/orders/OD-1/ship", "").await;
    assert_eq!(one(waiters).await.json()["status"], "SHIPPED");
    assert_eq!(app.watch.waiters(), 0);
}

#[tokio::test]
async fn a_waiter_is_woken_by_a_poll_of_what_others_did() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.create("OD-2").await;
    let options = StoreOptions {
        clock: Clock::Fixed(NOW),
        ..StoreOptions::default()
    };
    // Without a listener, like another process.
    let elsewhere = Store::open(&app.url, options);
    let mut waiters = wait_all(
        &app,
        vec![
            waiting("OD-1", r#""1""#, LONG),
            waiting("OD-2", r#""1""#, LONG),
        ],
    )
    .await;
    let fact = super::app::fact("OD-1", "acme", "tx-1", "succeeded", 1000);
    let batch = order_store::Batch {
        facts: vec![fact],
        dead_letters: Vec::new(),
    };
    elsewhere.record_payments(batch).await.unwrap();
    app.watch.poll(&app.store).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), waiters.join_next());
    let answer = ended.await.unwrap().unwrap().unwrap();
    assert_eq!(answer.json()["order_id"], "OD-1");
    assert_eq!(answer.json()["status"], "PAID");
    assert_eq!(app.watch.waiters(), 1);
}

#[tokio::test]
async fn the_wait_ends_with_not_modified() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let started = Instant::now();
    let answer = app.send(waiting("OD-1", r#"W/"1", "7""#, "wait=1")).await;
    let took = started.elapsed();
    assert_eq!(answer.status, 304, "{answer}");
    assert_eq!(answer.header("preference-applied"), Some("wait=1"));
    assert_eq!(answer.header("etag"), Some(r#""1""#));
    let expect = Duration::from_secs(1)..Duration::from_secs(5);
    assert!(expect.contains(&took), "{took:?}");
    // An order that can't move any more is waited for as well.
    app.post("/v1/orders/OD-1/cancel", "").await;
    let started = Instant::now();
    let answer = app.send(waiting("OD-1", r#""2""#, "wait=1")).await;
    assert_eq!(answer.status, 304);
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_caller_with_another_version_or_without_one_does_not_wait() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    for (tags, prefer, expect) in [
        (r#""2""#, LONG, 200),
        ("1", LONG, 200),
        (r#""1""#, "wait=0", 304),
        (r#""1""#, "wait", 304),
        (r#""1""#, "respond-async", 304),
        (r#""1""#, "wait=x", 304),
    ] {
        let answer = one(wait_none(&app, waiting("OD-1", tags, prefer))).await;
        assert_eq!(answer.status.as_u16(), expect, "{tags} {prefer}");
    }
    let untagged = Request::get("/v1/orders/OD-1").header("prefer", LONG);
    let answer = one(wait_none(&app, untagged.body(Body::empty()).unwrap())).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("preference-applied"), None);
    one(wait_none(&app, waiting("OD-2", "*", LONG)))
        .await
        .problem(404, "not-found");
    let long = one(wait_none(&app, waiting("OD-1", r#""2""#, "wait=4000"))).await;
    assert_eq!(long.header("preference-applied"), Some("wait=30"));
}

fn wait_none(app: &TestApp, request: Request<Body>) -> JoinSet<Answer> {
    let (mut waiters, router) = (JoinSet::new(), app.router.clone());
    waiters.spawn(async move { send(&router, request).await });
    waiters
}

#[tokio::test]
async fn head_waits_as_well() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let mut request = waiting("OD-1", r#""1""#, LONG);
    *request.method_mut() = Method::HEAD;
    let waiters = wait_all(&app, vec![request]).await;
    app.pay("OD-1", "tx-1", 1000).await;
    let answer = one(waiters).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        (answer.header("etag"), answer.body.len()),
        (Some(r#""2""#), 0)
    );
}

#[tokio::test]
async fn waiters_are_bounded_and_hold_no_connection() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    app.create("OD-2").await;
    let requests = (0..512).map(|number| {
        let id = if number % 2 == 0 { "OD-1" } else { "OD-2" };
        waiting(id, r#""1""#, LONG)
    });
    let mut waiters = wait_all(&app, requests.collect()).await;
    // The pool has four connections.
    assert_eq!(app.get("/v1/orders/OD-1").await.status, 200);
    let refused = app.send(waiting("OD-1", r#""1""#, LONG)).await;
    refused.problem(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("1"));
    app.pay("OD-1", "tx-1", 1000).await;
    for _ in 0..256 {
        let ended = tokio::time::timeout(Duration::from_secs(20), waiters.join_next());
        let answer = ended.await.unwrap().unwrap().unwrap();
        assert_eq!(answer.json()["status"], "PAID");
    }
    assert_eq!(app.watch.waiters(), 256);
    // Callers that disconnect free their slots.
    waiters.shutdown().await;
    assert_eq!(app.watch.waiters(), 0);
}

#[tokio::test]
async fn waiting_ends_with_the_service() {
    let stop = CancellationToken::new();
    let app = TestApp::watching(Watch::until(stop.clone())).await;
    app.create("OD-1").await;
    let waiters = wait_all(&app, vec![waiting("OD-1", r#""1""#, LONG)]).await;
    stop.cancel();
    assert_eq!(one(waiters).await.status, 304);
    let late = one(wait_none(&app, waiting("OD-1", r#""1""#, LONG))).await;
    assert_eq!(late.status, 304);
}

#[tokio::test(start_paused = true)]
async fn the_request_deadline_does_not_cut_a_wait() {
    use axum::routing::get;

    use crate::http::server::access::Access;
    use crate::http::server::deadline::Deadline;
    use crate::http::server::layers::around;

    let slow = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    let router = axum::Router::new()
        .route(
            "/put-off",
            get(async move |deadline: Deadline| {
                deadline.put_off(Duration::from_secs(30));
                slow(39).await;
                "here"
            }),
        )
        .route(
            "/overdue",
            get(async move |deadline: Deadline| {
                deadline.put_off(Duration::from_secs(30));
                slow(41).await;
                "here"
            }),
        );
    let router = around(router, Access::open(), Duration::from_secs(10), None);
    let ask = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        send(&router, request).await
    };
    assert_eq!(ask("/put-off").await.status, 200);
    ask("/overdue").await.problem(503, "unavailable");
}
