//! Commands whose callers go away.

use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use tower::ServiceExt as _;

use super::app::{TestApp, post};

/// Lets a request run for some polls, then goes away; whether it was answered before.
async fn cut(app: &TestApp, request: Request<Body>, polls: usize) -> bool {
    let mut answer = Box::pin(app.router.clone().oneshot(request));
    for _ in 0..polls {
        let ready = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context).is_ready())).await;
        if ready {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

async fn settled(app: &TestApp) {
    let started = Instant::now();
    while app.commands.running() > 0 {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "a command hangs"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_command_that_began_is_carried_out_and_its_answer_kept() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let cancel = || {
        let request = post("/v1/orders/OD-1/cancel").header("idempotency-key", "k1");
        request.body(Body::empty()).unwrap()
    };
    // One poll: the body is read, the task is there, nothing has happened yet.
    assert!(!cut(&app, cancel(), 1).await);
    assert_eq!(app.commands.running(), 1);
    settled(&app).await;
    let order = app.get("/v1/orders/OD-1").await.json();
    assert_eq!(order["status"], "CANCELLED");
    let again = app.send(cancel()).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{again}");
}

#[tokio::test]
async fn wherever_a_caller_goes_away_the_command_happens_once_or_not_at_all() {
    let app = TestApp::start().await;
    let mut answered = 0;
    for polls in 0..60 {
        let id = format!("OD-{polls}");
        app.create(&id).await;
        let request = post(&format!("/v1/orders/{id}/cancel"));
        answered += usize::from(cut(&app, request.body(Body::empty()).unwrap(), polls).await);
        settled(&app).await;
        let history = app.get(&format!("/v1/orders/{id}/history")).await.json();
        let steps = history["items"].as_array().unwrap().len();
        // Not polled at all, nothing was asked for.
        assert_eq!(steps, if polls == 0 { 1 } else { 2 }, "{id}");
    }
    assert!(answered < 60);
    assert!(app.store.audit().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_end_of_the_service_waits_for_commands() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let request = post("/v1/orders/OD-1/cancel").body(Body::empty()).unwrap();
    assert!(!cut(&app, request, 1).await);
    app.commands.join().await;
    let order = app.store.get_order("OD-1".parse().unwrap()).await.unwrap();
    assert_eq!(order.unwrap().version, 2);
}
