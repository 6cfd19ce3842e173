//! The accept loop, over real sockets.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::app::TestApp;
use crate::http::listen;
use crate::http::serve;

pub(super) struct Server {
    pub(super) addr: SocketAddr,
    shutdown: CancellationToken,
    others_stopped: CancellationToken,
    tasks: JoinSet<()>,
}

pub(super) fn start(router: Router) -> Server {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let others_stopped = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(
        listener,
        router,
        shutdown.clone(),
        others_stopped.clone(),
    ));
    Server {
        addr,
        shutdown,
        others_stopped,
        tasks,
    }
}

impl Server {
    pub(super) async fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Stops the service; returns how long that took.
    pub(super) async fn stop(mut self) -> Duration {
        let started = Instant::now();
        self.shutdown.cancel();
        self.others_stopped.cancel();
        self.tasks.join_next().await.unwrap().unwrap();
        started.elapsed()
    }
}

/// What a peer sends until it closes.
pub(super) async fn read(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

fn router() -> Router {
    Router::new().route("/", get(async || "here")).route(
        "/slow",
        get(async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "done"
        }),
    )
}

#[tokio::test]
async fn requests_in_hand_are_finished_and_idle_connections_closed() {
    let server = start(router());
    let silent = server.connect("").await;
    let mut idle = server
        .connect("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    let mut answer = [0; 512];
    let length = idle.read(&mut answer).await.unwrap();
    assert!(answer[..length].ends_with(b"here"));
    let busy = server
        .connect("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    // Shutting down before the request is read would be another case.
    tokio::time::sleep(Duration::from_millis(100)).await;

    let addr = server.addr;
    let (took, busy, idle, silent) =
        tokio::join!(server.stop(), read(busy), read(idle), read(silent));
    assert!(
        busy.starts_with("HTTP/1.1 200 OK") && busy.ends_with("done"),
        "{busy}"
    );
    assert_eq!((idle.as_str(), silent.as_str()), ("", ""));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn new_connections_are_answered_while_anything_is_left_to_finish() {
    let server = start(router());
    let request = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    server.shutdown.cancel();
    // The accept loop has noticed by then, or answers it as usual: either way there is an answer.
    for _ in 0..3 {
        let answer = read(server.connect(request).await).await;
        assert!(answer.ends_with("here"), "{answer}");
    }
    // A silent peer doesn't delay the stop.
    let silent = server.connect("").await;
    let busy = server
        .connect("GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let addr = server.addr;
    let (took, busy, silent) = tokio::join!(server.stop(), read(busy), read(silent));
    assert!(busy.ends_with("done"), "{busy}");
    assert_eq!(silent, "");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn an_unchanged_order_declares_no_length() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let server = start(app.router.clone());
    let request = "GET /v1/orders/OD-1 HTTP/1.1\r\nhost: localhost\r\nif-none-match: \"1\"\r\n\r\n";
    let next = "GET /v1/orders/OD-1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let text = read(server.connect(&format!("{request}{next}")).await)
        .await
        .to_lowercase();
    let (unchanged, whole) = text.split_once("\r\n\r\n").unwrap();
    assert!(unchanged.starts_with("http/1.1 304 "), "{unchanged}");
    assert!(
        !unchanged.contains("content-length") && !unchanged.contains("encoding"),
        "{unchanged}"
    );
    assert!(whole.starts_with("http/1.1 200 ok"), "{whole}");
    server.stop().await;
}

#[tokio::test]
async fn a_request_head_that_is_too_large_is_refused() {
    let server = start(router());
    let large = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    let answer = read(server.connect(&large).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let fits = format!(
        "GET / HTTP/1.1\r\nconnection: close\r\nx: {}\r\n\r\n",
        "y".repeat(15_000)
    );
    let answer = read(server.connect(&fits).await).await;
    assert!(answer.ends_with("here"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_sender_that_never_finishes_its_head_is_cut_off() {
    let server = start(router());
    let started = Instant::now();
    let slow = server.connect("GET / HTTP/1.1\r\nx: ").await;
    read(slow).await;
    let took = started.elapsed();
    assert!(
        (Duration::from_secs(9)..Duration::from_secs(15)).contains(&took),
        "{took:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn unread_answers_are_not_buffered_without_bound() {
    // Counts how much of an endless answer was taken by the connection.
    let given = Arc::new(AtomicUsize::new(0));
    let counter = given.clone();
    let router = Router::new().route(
        "/endless",
        get(async move || {
            let chunks = futures_util::stream::repeat_with(move || {
                counter.fetch_add(1024, Ordering::Relaxed);
                Ok::<_, Infallible>(Bytes::from_static(&[0; 1024]))
            });
            Body::from_stream(chunks)
        }),
    );
    let server = start(router);
    let _peer = server
        .connect("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    // Until the count stops growing.
    let (mut before, mut taken) = (usize::MAX, 0);
    while before != taken {
        before = taken;
        tokio::time::sleep(Duration::from_millis(200)).await;
        taken = given.load(Ordering::Relaxed);
    }
    // The buffer of the peer, which we don't control, ours, and that of hyper.
    assert!((1..2_000_000).contains(&taken), "{taken}");
}
