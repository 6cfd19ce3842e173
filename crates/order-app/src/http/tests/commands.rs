//! Commands whose callers disconnect.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Request;
use axum::middleware::from_fn_with_state;
use axum::{Router, routing};
use tokio::sync::Notify;
use tower::ServiceExt as _;

use super::app::{TestApp, addressed, post, send};
use crate::http::server::access::Access;
use crate::http::server::carry_out;
use crate::http::server::layers;
use crate::http::{Commands, Shared};

/// Lets a request run for some polls, then drops it; returns whether it was answered before.
async fn cut(app: &TestApp, request: Request<Body>, polls: usize) -> bool {
    let mut answer = Box::pin(app.router.clone().oneshot(addressed(request)));
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
async fn a_command_that_began_is_carried_out_and_its_answer_stored() {
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
async fn a_command_whose_caller_disconnects_is_carried_out_once_or_not_at_all() {
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
        // Not polled at all, the request never began.
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

/// Operations that panic or wait on request, under the layer of commands.
fn scripted(app: &TestApp, commands: Commands, go_on: Arc<Notify>) -> Router {
    let state = app.state(app.store.clone()).carrying_out(commands);
    let router = Router::new()
        .route(
            "/panic",
            routing::post(async || -> &str { panic!("on request") }),
        )
        .route("/done", routing::post(async || "done"))
        .route(
            "/wait",
            routing::post(async move || {
                go_on.notified().await;
                "waited"
            }),
        )
        .route_layer(from_fn_with_state(
            Shared(state.into()),
            carry_out::carry_out,
        ));
    layers::around(router, Access::open(), Duration::from_secs(10), None)
}

#[tokio::test]
async fn a_command_that_panics_is_answered_and_its_key_released() {
    let app = TestApp::start().await;
    let router = scripted(&app, Commands::default(), Arc::default());
    for _ in 0..2 {
        let request = post("/panic").header("idempotency-key", "k1");
        let answer = send(&router, request.body(Body::empty()).unwrap()).await;
        answer.problem(500, "internal");
    }
}

#[tokio::test]
async fn commands_without_callers_are_bounded() {
    let app = TestApp::start().await;
    let (commands, go_on) = (Commands::at_most(2), Arc::new(Notify::new()));
    let router = scripted(&app, commands.clone(), go_on.clone());
    let request = |path: &str| post(path).body(Body::empty()).unwrap();
    for _ in 0..3 {
        let mut abandoned = Box::pin(router.clone().oneshot(addressed(request("/wait"))));
        poll_fn(|context| Poll::Ready(abandoned.as_mut().poll(context).is_ready())).await;
    }
    assert_eq!(commands.running(), 2);
    let mut last = Box::pin(send(&router, request("/done")));
    let early = tokio::time::timeout(Duration::from_millis(50), last.as_mut()).await;
    assert!(early.is_err(), "there was no room");
    go_on.notify_waiters();
    assert_eq!(last.await.text(), "done");
}
