//! What can be seen of a running service: its metrics, what is drawn from them, its log.

use std::collections::BTreeSet;
use std::path::Path;

use async_nats::HeaderMap;

use crate::support::{Database, Payments, Service, event, eventually, orderd};

/// Names of the contract.
const AGREED: [&str; 12] = [
    "orderd_payment_events_total",
    "orderd_redeliveries_total",
    "orderd_batch_size",
    "orderd_commit_delay_seconds",
    "orderd_consumer_pending",
    "orderd_unpublished_events",
    "orderd_unpublished_oldest_seconds",
    "orderd_exceptions_open",
    "orderd_dead_letters_open",
    "orderd_reconciliation_total",
    "orderd_http_requests_total",
    "orderd_http_request_seconds",
];

/// Every name of a metric in a text.
fn names(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        .filter(|word| word.starts_with("orderd_"))
        .map(str::to_owned)
        .collect()
}

/// The names that a service exposes, those of a histogram's parts included.
async fn exposed(service: &Service, secret: &str) -> BTreeSet<String> {
    let request = reqwest::Client::new()
        .get(format!("{}/metrics", service.http))
        .bearer_auth(secret);
    let text = request.send().await.unwrap().text().await.unwrap();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            found.extend(described.split(' ').next().map(str::to_owned));
        } else if !line.starts_with('#') {
            found.extend(line.split(['{', ' ']).next().map(str::to_owned));
        }
    }
    found
}

/// A tokens file in a folder of its own, and the secret of a token that may do everything.
fn token(database: &Database) -> (String, String) {
    let path = database.url.strip_prefix("sqlite://").map_or_else(
        || std::env::temp_dir().join(order_testkit::unique_name("orderd_tokens")),
        |file| Path::new(file).with_file_name("tokens"),
    );
    let path = path.to_str().unwrap().to_owned();
    let scopes = "orders:read,orders:write,ops";
    let made = orderd(&["token", "--name", "all", "--scopes", scopes])
        .env("ORDERD_TOKENS_FILE", &path)
        .output()
        .unwrap();
    let secret = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    (path, secret)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_drawn_and_alarmed_is_exposed() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let (file, secret) = token(&database);
    let settings = [("ORDERD_TOKENS_FILE", file.as_str())];
    let service = Service::start_with(&database, &payments, &settings).await;
    // A fresh service, asked for a second time: the first request is counted when it is over.
    exposed(&service, &secret).await;
    let exposed = eventually("everything was looked at once", async || {
        let exposed = exposed(&service, &secret).await;
        exposed
            .contains("orderd_consumer_pending")
            .then_some(exposed)
    })
    .await;
    for name in AGREED {
        assert!(exposed.contains(name), "{name} is not in {exposed:?}");
    }
    for file in ["prometheus/orderd.rules.yml", "grafana/orderd.json"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
        let watched = names(&std::fs::read_to_string(path.join(file)).unwrap());
        assert!(watched.len() > 10, "{file}: {watched:?}");
        for name in watched {
            assert!(
                exposed.contains(&name),
                "{file}: {name} is not in {exposed:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_can_be_followed_from_its_message_to_its_ack() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    let recorded = eventually("the log tells of the payment", async || {
        let log = service.log();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines
            .into_iter()
            .find(|line: &serde_json::Value| line["payment.transaction_id"] == "tx1")
    })
    .await;
    for (field, expect) in [
        ("event.id", "ev-tx1"),
        ("order.id", "O1"),
        ("payment.provider", "acme"),
        ("payment.kind", "succeeded"),
        ("verdict", "APPLIED"),
    ] {
        assert_eq!(recorded[field], expect, "{recorded}");
    }
    let sequence = &recorded["stream.sequence"];
    assert_eq!(*sequence, 1, "{recorded}");
    eventually("the log tells of the ack", async || {
        let log = service.log();
        log.lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find(|line| line["message"] == "message acked" && line["stream.sequence"] == 1)
    })
    .await;
}

/// Everything that must not be in a log has this in it.
const PLANTED: &str = "pl4nted";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_and_no_body_is_in_a_log_at_any_level() {
    let (mut database, mut payments) = (Database::postgres().await, Payments::new().await);
    database.url = database
        .url
        .replacen("postgres@", "postgres:pl4nted-db@", 1);
    assert!(database.url.contains(PLANTED), "{}", database.url);
    let bare = payments.server.clone();
    payments.server = bare.replacen("nats://", "nats://ann:pl4nted-nats@", 1);
    assert!(payments.server.contains(PLANTED), "{}", payments.server);
    let (file, secret) = token(&database);
    let random = secret.strip_prefix("orderd_").unwrap().to_owned();
    let settings = [
        ("ORDERD_TOKENS_FILE", file.as_str()),
        ("ORDERD_LOG", "trace"),
    ];
    let service = Service::start_with(&database, &payments, &settings).await;

    eventually("the service is ready", async || {
        (service.get("/readyz").await?.0 == 200).then_some(())
    })
    .await;
    let client = reqwest::Client::new();
    let post = async |path: &str, secret: &str, body: &str| {
        let request = client
            .post(format!("{}{path}", service.http))
            .header("content-type", "application/json")
            .bearer_auth(secret)
            .body(body.to_owned());
        request.send().await.unwrap().status().as_u16()
    };
    let order = r#"{"order_id":"O1","amount":1000,"currency":"EUR"}"#;
    assert_eq!(post("/v1/orders", "pl4nted-token", order).await, 401);
    assert_eq!(post("/v1/orders", &secret, order).await, 201);
    let unknown = r#"{"order_id":"O1","pl4nted-field":"pl4nted-value"}"#;
    assert_eq!(post("/v1/orders", &secret, unknown).await, 400);
    let reason = r#"{"reason":"pl4nted-reason"}"#;
    assert_eq!(post("/v1/orders/O1/ship", &secret, reason).await, 409);

    let good = event("succeeded", "tx1", "O1", 1000);
    let good = good.replacen('{', r#"{"note":"pl4nted-in-a-good-event","#, 1);
    let mut headers = HeaderMap::new();
    headers.insert("Trace", "pl4nted-header");
    let subject = format!("{}.acme", payments.subject);
    for body in [good, "pl4nted-poison".to_owned()] {
        let sent =
            payments
                .context
                .publish_with_headers(subject.clone(), headers.clone(), body.into());
        sent.await.unwrap().await.unwrap();
    }
    let get = async |path: &str| -> serde_json::Value {
        let request = client.get(format!("{}{path}", service.http));
        let answer = request.bearer_auth(&secret).send().await.unwrap();
        answer.json().await.unwrap()
    };
    eventually("the payment is applied", async || {
        (get("/v1/orders/O1").await["status"] == "PAID").then_some(())
    })
    .await;
    let letter = eventually("the poison is a dead letter", async || {
        let letters = get("/v1/dead-letters").await;
        letters["items"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    let replay = format!("/v1/dead-letters/{letter}/replay");
    let corrected = r#"{"body":{"pl4nted-member":"pl4nted-value"}}"#;
    assert_eq!(post(&replay, &secret, corrected).await, 400);
    let discard = format!("/v1/dead-letters/{letter}/discard");
    let note = r#"{"note":"pl4nted-note"}"#;
    assert_eq!(post(&discard, &secret, note).await, 200);

    let log = service.log();
    assert!(log.contains("sqlx::query"), "everything there is is logged");
    for secret in [PLANTED, &random] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
    let _ = std::fs::remove_file(file);
}
