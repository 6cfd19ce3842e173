//! Senders of bodies that are refused, and clients that close their side, over real sockets: all
//! of them receive their answer.

use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::access::Closed;
use super::app::TestApp;
use super::serve::{Server, start};

const PATIENCE: Duration = Duration::from_secs(20);

/// How a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Everything, then it reads.
    Whole,
    /// The same in chunks, without a length.
    Chunked,
    /// The head, and the body after `100 Continue`.
    InPieces,
}

/// Sends a request with a body of this size, and only then reads what is answered, to the end.
async fn ask(server: &Server, head: &str, bytes: usize, manner: Manner) -> Result<String, String> {
    let (chunk, length) = (" ".repeat(50_000), format!("content-length: {bytes}"));
    let length = match manner {
        Manner::Chunked => "transfer-encoding: chunked",
        Manner::Whole | Manner::InPieces => &length,
    };
    let head = format!("{head}host: localhost\r\nconnection: close\r\n{length}\r\n\r\n");
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let failed = |error: std::io::Error| format!("{error} when sending");
    stream.write_all(head.as_bytes()).await.map_err(failed)?;
    if manner == Manner::InPieces {
        // As slow networks do: the answer may be decided before the body comes.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut left = bytes;
    while left > 0 {
        let size = left.min(chunk.len());
        let part = match manner {
            Manner::Chunked => format!("{size:x}\r\n{}\r\n", &chunk[..size]),
            Manner::Whole | Manner::InPieces => chunk[..size].to_owned(),
        };
        stream.write_all(part.as_bytes()).await.map_err(failed)?;
        left -= size;
    }
    if manner == Manner::Chunked {
        stream.write_all(b"0\r\n\r\n").await.map_err(failed)?;
    }
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    read.expect("the connection ends")
        .map_err(|error| format!("{error} when reading"))?;
    Ok(String::from_utf8(answer).unwrap())
}

const JSON: &str = "content-type: application/json\r\n";

async fn check(router: Router, requests: &[(&str, &str, &str)], sizes: &[usize]) {
    let server = start(router);
    for (line, headers, status) in requests {
        for bytes in sizes {
            for manner in [Manner::Whole, Manner::Chunked, Manner::InPieces] {
                let head = format!("{line} HTTP/1.1\r\n{headers}");
                let answer = ask(&server, &head, *bytes, manner).await;
                let about = format!("{line} {bytes} {manner:?}: {answer:?}");
                let answer = answer.unwrap_or_default();
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{about}"
                );
                assert!(answer.contains("/problems/"), "{about}");
            }
        }
    }
    server.stop().await;
}

const SIZES: [usize; 3] = [1, 100_000, 900_000];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sender_of_a_refused_body_reads_the_answer() {
    let app = TestApp::start().await;
    let foreign = format!("origin: http://evil.example\r\n{JSON}");
    let requests = [
        ("POST /v1/nothing", JSON, "404"),
        ("PUT /v1/orders", JSON, "405"),
        ("GET /v1/orders/OD-9", "", "404"),
        ("POST /v1/orders", foreign.as_str(), "403"),
    ];
    check(app.router.clone(), &requests, &SIZES).await;
    let large = [
        ("POST /v1/orders", JSON, "413"),
        ("POST /v1/orders", "", "413"),
    ];
    check(app.router.clone(), &large, &[100_000, 900_000]).await;
    check(
        app.router.clone(),
        &[("POST /v1/orders", "", "415")],
        &[1, 60_000],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_a_token_reads_its_401_despite_a_large_body() {
    let closed = Closed::start(Some(1)).await;
    check(closed.router(), &[("POST /v1/orders", JSON, "401")], &SIZES).await;
    let bearer = format!(
        "authorization: Bearer {}\r\n",
        closed.secret(&crate::tokens::Scope::ALL)
    );
    // Beyond the rate limit; the first request is within it.
    let server = start(closed.router());
    let head = format!("POST /v1/nothing HTTP/1.1\r\n{bearer}");
    let mut limited = 0;
    for _ in 0..6 {
        let answer = ask(&server, &head, 900_000, Manner::Whole).await.unwrap();
        limited += usize::from(answer.starts_with("HTTP/1.1 429 "));
    }
    assert!(limited > 0);
    server.stop().await;
}

/// More than is read before the answer: the connection lingers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_some_megabytes_does_not_cost_the_answer() {
    let app = TestApp::start().await;
    let requests = [
        ("POST /v1/orders", JSON, "413"),
        ("POST /v1/nothing", JSON, "404"),
    ];
    check(app.router.clone(), &requests, &[1_500_000, 3_000_000]).await;
}

#[tokio::test]
async fn a_refused_body_that_is_taken_in_leaves_the_connection_open() {
    let app = TestApp::start().await;
    let server = start(app.router.clone());
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let head = "POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900000\r\n\r\n";
    let next = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let request = format!("{head}{}{next}", " ".repeat(900_000));
    stream.write_all(request.as_bytes()).await.unwrap();
    let answers = super::serve::read(stream).await;
    assert!(answers.starts_with("HTTP/1.1 404 "), "{answers}");
    assert!(answers.contains("HTTP/1.1 200 OK"), "{answers}");
    server.stop().await;
}

/// A client with `Expect: 100-continue` isn't asked to send a body that is refused anyway.
#[tokio::test]
async fn a_refused_body_is_not_asked_for() {
    let app = TestApp::start().await;
    let server = start(app.router.clone());
    for (line, bytes, status) in [
        ("POST /v1/nothing", 10, "404"),
        ("POST /v1/orders", 900_000, "413"),
    ] {
        let head = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
             content-length: {bytes}\r\n{JSON}\r\n"
        );
        let answer = super::serve::read(server.connect(&head).await).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(
            answer.to_lowercase().contains("connection: close"),
            "{answer}"
        );
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_closes_its_side_is_answered() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let server = start(app.router.clone());
    let order = r#"{"order_id":"OD-2","amount":1000,"currency":"CNY"}"#;
    let create = format!(
        "POST /v1/orders HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: {}\r\n\r\n{order}",
        order.len()
    );
    let cut = format!("{}\r\n", &create[..create.len() - 10]);
    let wait = "GET /v1/orders/OD-1 HTTP/1.1\r\nhost: localhost\r\n\
                if-none-match: \"1\"\r\nprefer: wait=30\r\n\r\n";
    for (request, status) in [
        (
            "GET /v1/orders/OD-1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "200",
        ),
        (create.as_str(), "201"),
        (cut.as_str(), "400"),
        (
            "POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n12345",
            "404",
        ),
        // The client may be gone, so its wait ends early.
        (wait, "304"),
    ] {
        let mut stream = server.connect(request).await;
        stream.shutdown().await.unwrap();
        let answer = timeout(Duration::from_secs(10), super::serve::read(stream)).await;
        let answer = answer.expect("an answer");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    server.stop().await;
}

/// A caller that disconnects frees its slot.
#[tokio::test]
async fn waiting_ends_when_the_client_disconnects() {
    let app = TestApp::start().await;
    app.create("OD-1").await;
    let server = start(app.router.clone());
    let wait = "GET /v1/orders/OD-1 HTTP/1.1\r\nhost: localhost\r\n\
                if-none-match: \"1\"\r\nprefer: wait=30\r\n\r\n";
    for is_reset in [false, true] {
        let stream = server.connect(wait).await;
        let waiting = async |count: usize| {
            while app.watch.waiters() != count {
                tokio::task::yield_now().await;
            }
        };
        let entered = timeout(Duration::from_secs(10), waiting(1)).await;
        entered.expect("it waits");
        if is_reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        let left = timeout(Duration::from_secs(10), waiting(0)).await;
        left.expect("its place is free");
    }
    server.stop().await;
}
