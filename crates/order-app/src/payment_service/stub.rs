//! A payment service for tests: HTTP over a socket, with answers out of a closure.

use std::sync::{Arc, Mutex};

use order_store::Store;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::{PaymentService, Transport, http};

/// What the stub does with a question.
#[derive(Debug, Clone)]
pub(crate) enum Say {
    /// Answers 200 with these entries.
    Entries(Vec<Value>),
    /// Answers with this status line, these header lines and this body.
    Raw(&'static str, String, String),
    /// Answers nothing.
    Silence,
}

impl Say {
    /// Answers with a status and nothing else.
    pub(crate) fn status(line: &'static str) -> Self {
        Self::Raw(line, String::new(), String::new())
    }

    /// Answers 200 with this body.
    pub(crate) fn body(text: &str) -> Self {
        Self::Raw("200 OK", String::new(), text.to_owned())
    }
}

type Script = Arc<Mutex<dyn FnMut(&[String]) -> Say + Send>>;

/// Every question, and when it came.
type Asked = Arc<Mutex<Vec<(Instant, Vec<String>)>>>;

/// The stub. It ends with this.
pub(crate) struct Stub {
    url: reqwest::Url,
    asked: Asked,
    _serving: JoinSet<()>,
}

impl Stub {
    /// Answers every question with what the script says to its order ids.
    pub(crate) async fn start(script: impl FnMut(&[String]) -> Say + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/query", listener.local_addr().unwrap());
        let script: Script = Arc::new(Mutex::new(script));
        let asked = Asked::default();
        let mut serving = JoinSet::new();
        let log = asked.clone();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, script.clone(), log.clone()));
            }
        });
        Self {
            url: url.parse().unwrap(),
            asked,
            _serving: serving,
        }
    }

    /// The payment service that this plays.
    pub(crate) fn service(&self, store: &Store, spacing: Duration) -> PaymentService {
        // Another test may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        PaymentService {
            transport: Transport::Http(http::Posts::new(self.url.clone()).unwrap()),
            store: store.clone(),
            spacing,
            livemode: true,
        }
    }

    /// The questions so far.
    pub(crate) fn asked(&self) -> Vec<(Instant, Vec<String>)> {
        self.asked.lock().unwrap().clone()
    }
}

/// An entry that says when an order was paid.
pub(crate) fn paid(order_id: &str, transaction_id: &str, amount: i64) -> Value {
    json!({
        "order_id": order_id, "state": "paid", "provider": "acme",
        "transaction_id": transaction_id, "amount": amount, "currency": "CNY",
        "occurred_at": "2026-11-29T08:00:00Z",
    })
}

/// An entry that says that an order can't be paid any more.
pub(crate) fn unpaid_for_good(order_id: &str) -> Value {
    json!({ "order_id": order_id, "state": "unpaid", "final": true })
}

async fn serve(mut stream: TcpStream, script: Script, log: Asked) {
    while let Some(ids) = read_question(&mut stream).await {
        log.lock().unwrap().push((Instant::now(), ids.clone()));
        let said = (script.lock().unwrap())(&ids);
        let (status, headers, body) = match said {
            Say::Entries(entries) => (
                "200 OK",
                String::new(),
                json!({ "payments": entries }).to_string(),
            ),
            Say::Raw(status, headers, body) => (status, headers, body),
            Say::Silence => std::future::pending().await,
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The order ids of the next question on a connection.
async fn read_question(stream: &mut TcpStream) -> Option<Vec<String>> {
    let mut read = Vec::new();
    loop {
        if let Some(body) = whole_body(&read) {
            let question: Value = serde_json::from_slice(body).unwrap();
            let ids = question["order_ids"].as_array().unwrap().iter();
            return Some(ids.map(|id| id.as_str().unwrap().to_owned()).collect());
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => read.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

fn whole_body(read: &[u8]) -> Option<&[u8]> {
    let text = std::str::from_utf8(read).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().unwrap())
    });
    (body.len() >= length.unwrap()).then_some(body.as_bytes())
}
