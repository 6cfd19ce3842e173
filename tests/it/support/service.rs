//! `orderd serve` as a child process that ends with its test.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use order_testkit::{clear_settings, unique_name};
use serde_json::{Value, json};
use tokio::process::Child;

use super::{Database, PATIENCE, Payments, eventually};

/// A running service.
pub(crate) struct Service {
    child: Child,
    log: PathBuf,
    pub(crate) http: String,
    client: reqwest::Client,
}

/// The binary under test, with no setting of the surroundings.
pub(crate) fn orderd(arguments: &[&str]) -> Command {
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("orderd");
    assert!(
        binary.exists(),
        "{} is missing: cargo build --workspace",
        binary.display()
    );
    let mut command = Command::new(binary);
    clear_settings(&mut command);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The settings of a service on this database and these streams.
pub(crate) fn configure<'a>(
    command: &'a mut Command,
    database: &Database,
    payments: &Payments,
) -> &'a mut Command {
    if let Some((stream, prefix)) = &payments.outbound {
        command
            .env("ORDERD_OUTBOUND_STREAM", stream)
            .env("ORDERD_OUTBOUND_PREFIX", prefix);
    }
    command
        .env("DATABASE_URL", &database.url)
        .env("NATS_URL", &payments.server)
        .env("ORDERD_HTTP_ADDR", "127.0.0.1:0")
        .env("ORDERD_INBOUND_STREAM", &payments.stream)
        .env("ORDERD_INBOUND_SUBJECT", &payments.subject)
        .env("ORDERD_LOG", "info,order_app=debug")
        .env("ORDERD_LOG_FORMAT", "json")
}

impl Service {
    /// Starts a service and waits until it is ready.
    pub(crate) async fn start(database: &Database, payments: &Payments) -> Self {
        let mut service = Self::start_unready(database, payments).await;
        service.ready().await;
        service
    }

    /// Starts a service and waits until it serves HTTP, ready or not.
    pub(crate) async fn start_unready(database: &Database, payments: &Payments) -> Self {
        Self::start_with(database, payments, &[]).await
    }

    /// Starts a service with more settings and waits until it serves HTTP, ready or not.
    pub(crate) async fn start_with(
        database: &Database,
        payments: &Payments,
        more: &[(&str, &str)],
    ) -> Self {
        Self::start_command(orderd(&["serve"]), database, payments, more).await
    }

    /// Starts a service by a command of the test's own and waits until it serves HTTP.
    pub(crate) async fn start_command(
        mut command: Command,
        database: &Database,
        payments: &Payments,
        more: &[(&str, &str)],
    ) -> Self {
        let log = std::env::temp_dir().join(unique_name("orderd_log"));
        configure(&mut command, database, payments)
            .envs(more.iter().copied())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap());
        let mut command = tokio::process::Command::from(command);
        let child = command.kill_on_drop(true).spawn().unwrap();
        order_drill::choose_tls();
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(10))
            .build()
            .unwrap();
        let mut service = Self {
            child,
            log,
            http: String::new(),
            client,
        };
        let address = eventually("the service says where it serves", async || {
            let ended = service.child.try_wait().unwrap();
            // One that was told to crash may do so as soon as it serves.
            let address = service.logged("http.addr");
            if let (None, Some(ended)) = (&address, ended) {
                panic!("the service ended with {ended}: {}", service.log());
            }
            address
        })
        .await;
        service.http = format!("http://{address}");
        service
    }

    /// Waits until it is ready.
    pub(crate) async fn ready(&mut self) {
        self.ready_again().await;
    }

    /// Waits until it is ready, whatever was the matter before.
    pub(crate) async fn ready_again(&self) {
        eventually("the service is ready", async || {
            (self.get("/readyz").await?.0 == 200).then_some(())
        })
        .await;
    }

    /// Waits until it isn't ready for this reason, and says so in these words among others.
    pub(crate) async fn because(&self, reason: &str, words: &[&str]) {
        eventually(&format!("{reason}: {words:?}"), async || {
            let (status, body) = self.get("/readyz").await?;
            let reasons = body["reasons"].as_array()?;
            let given = reasons.iter().find(|given| given["reason"] == reason)?;
            assert_eq!(status, 503);
            let detail = given["detail"].as_str()?;
            words.iter().all(|word| detail.contains(word)).then_some(())
        })
        .await;
    }

    /// What the service wrote so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    fn logged(&self, field: &str) -> Option<String> {
        self.log().lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line.get(field)?.as_str().map(str::to_owned)
        })
    }

    /// Status and JSON body of a GET; none if the service doesn't answer.
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, Value)> {
        let answer = self
            .client
            .get(format!("{}{path}", self.http))
            .send()
            .await
            .ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.unwrap_or_default()))
    }

    /// Creates an order of 10.00 EUR.
    pub(crate) async fn create(&self, order_id: &str) {
        let order = json!({"order_id": order_id, "amount": 1000, "currency": "EUR"});
        let (status, answer) = self.post("/v1/orders", &order).await;
        assert!(status < 300, "{answer}");
    }

    /// Status and JSON body of a POST.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = self
            .client
            .post(format!("{}{path}", self.http))
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json().await.unwrap_or_default())
    }

    /// The status of an order, and its version.
    pub(crate) async fn status(&self, order_id: &str) -> Option<(String, i64)> {
        let (status, order) = self.get(&format!("/v1/orders/{order_id}")).await?;
        (status == 200).then(|| {
            (
                order["status"].as_str().unwrap().to_owned(),
                order["version"].as_i64().unwrap(),
            )
        })
    }

    /// Waits until an order is paid.
    pub(crate) async fn paid(&self, order_id: &str) {
        eventually("the order is paid", async || {
            (self.status(order_id).await? == ("PAID".to_owned(), 2)).then_some(())
        })
        .await;
    }

    /// A counter of the service, over all labels that contain `label`.
    pub(crate) async fn counter(&self, name: &str, label: &str) -> u64 {
        let answer = self
            .client
            .get(format!("{}/metrics", self.http))
            .send()
            .await
            .unwrap();
        let text = answer.text().await.unwrap();
        text.lines()
            .filter(|line| line.starts_with(name) && line.contains(label))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .map(|value| {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a counter"
                )]
                {
                    value as u64
                }
            })
            .sum()
    }

    /// How often this verdict was given.
    pub(crate) async fn counted(&self, verdict: &str) -> u64 {
        self.counter(
            "orderd_payment_events_total",
            &format!("verdict=\"{verdict}\""),
        )
        .await
    }

    /// Waits until the process has ended by itself, and says by which signal.
    pub(crate) async fn died(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt as _;

        let ended = tokio::time::timeout(2 * PATIENCE, self.child.wait()).await;
        ended.ok().and_then(|status| status.unwrap().signal())
    }

    /// Waits until the process has ended by itself, and says with which exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.ok().and_then(|status| status.unwrap().code())
    }

    /// Ends the process at once, as a crash would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Sends SIGTERM and returns the exit code and how long the end took.
    pub(crate) async fn terminate(mut self) -> (Option<i32>, Duration) {
        let started = Instant::now();
        self.signal("TERM");
        let ended = tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .unwrap()
            .unwrap();
        (ended.code(), started.elapsed())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!(
                "the end of the service's log, newest first:\n{}",
                tail.join("\n")
            );
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Audits a database with the binary; its exit code and what it printed.
pub(crate) fn audit(database: &Database) -> (Option<i32>, String) {
    let Output { status, stdout, .. } = orderd(&["audit"])
        .env("DATABASE_URL", &database.url)
        .output()
        .unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}
