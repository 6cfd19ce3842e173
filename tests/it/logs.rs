//! Readers of the log and of printed output that disappear, stop reading, or have a full disk.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr};

use crate::support::{Database, PATIENCE, Payments, audit, configure, event, eventually, orderd};

/// A service whose log is read by the test, as far as it likes.
struct Logging {
    child: Child,
    /// `None`: it isn't read any more.
    log: Option<BufReader<ChildStderr>>,
    http: String,
    client: reqwest::Client,
}

impl Logging {
    /// Starts a service and reads its log until it says where it serves.
    async fn start(database: &Database, payments: &Payments, level: &str) -> Self {
        let mut command = orderd(&["serve"]);
        configure(&mut command, database, payments)
            .env("ORDERD_LOG", level)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let serving = async {
            loop {
                let mut line = String::new();
                assert!(log.read_line(&mut line).await.unwrap() > 0, "the log ended");
                let line: Value = serde_json::from_str(&line).unwrap();
                if let Some(address) = line.get("http.addr").and_then(Value::as_str) {
                    return format!("http://{address}");
                }
            }
        };
        let http = tokio::time::timeout(PATIENCE, serving).await;
        let http = http.expect("the service says where it serves");
        order_drill::choose_tls();
        let client = reqwest::Client::builder().no_proxy();
        Self {
            child,
            log: Some(log),
            http,
            client: client.timeout(Duration::from_secs(10)).build().unwrap(),
        }
    }

    /// Creates an order, has it paid by an event, and waits until it is.
    async fn works(&self, payments: &Payments, order_id: &str) {
        let order = json!({"order_id": order_id, "amount": 1000, "currency": "EUR"});
        let post = self.client.post(format!("{}/v1/orders", self.http));
        let created = post.json(&order).send().await.unwrap();
        assert_eq!(created.status(), 201, "{order_id}");
        let paid = event("succeeded", &format!("tx-{order_id}"), order_id, 1000);
        payments.publish(paid).await;
        let place = format!("{}/v1/orders/{order_id}", self.http);
        eventually("the order is paid", async || {
            let order = self.client.get(&place).send().await.unwrap();
            let order: Value = order.json().await.unwrap();
            (order["status"] == "PAID").then_some(())
        })
        .await;
    }

    /// Logs more than anybody keeps for a reader that doesn't read.
    async fn floods(&self) {
        let get = |number: u64| {
            let request = self
                .client
                .get(format!("{}/v1/orders/O{number}", self.http));
            async move { request.send().await.unwrap().status() }
        };
        let flood = async {
            while self.dropped().await == 0.0 {
                let asked = stream::iter(0..400).map(get).buffer_unordered(32);
                // Each is answered, whether or not the log is read.
                asked.for_each(async |status| assert_eq!(status, 404)).await;
            }
        };
        let flooded = tokio::time::timeout(4 * PATIENCE, flood).await;
        flooded.expect("lines are dropped");
    }

    /// Lines that were dropped or lost.
    async fn dropped(&self) -> f64 {
        let metrics = self.client.get(format!("{}/metrics", self.http));
        let metrics = metrics.send().await.unwrap().text().await.unwrap();
        let name = "orderd_log_lines_dropped_total ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.expect("it is exposed").parse().unwrap()
    }

    /// Sends SIGTERM; the exit code, or `None` if it doesn't end.
    async fn terminate(&mut self) -> Option<i32> {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.ok()?.unwrap().code()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_reader_that_goes_away_ends_nothing() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut service = Logging::start(&database, &payments, "info,order_app=debug").await;
    service.works(&payments, "O1").await;
    service.log = None;
    for number in 2..6 {
        service.works(&payments, &format!("O{number}")).await;
    }
    assert!(service.dropped().await > 0.0, "nothing was logged");
    assert_eq!(service.terminate().await, Some(0));
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_reader_that_stops_reading_holds_up_nothing() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut service = Logging::start(&database, &payments, "trace").await;
    // The pipe fills, then the buffer behind it.
    service.floods().await;
    service.works(&payments, "LAST").await;
    assert_eq!(service.terminate().await, Some(0));
    // What had been written is whole lines but for the last one.
    let mut rest = String::new();
    let mut log = service.log.take().unwrap();
    log.read_to_string(&mut rest).await.unwrap();
    let mut lines: Vec<&str> = rest.lines().collect();
    lines.pop();
    assert!(lines.len() > 10, "{}", lines.len());
    for line in lines {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

/// A reader that catches up learns how much it missed, and reads the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_reader_that_comes_back_reads_how_many_lines_it_missed() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut service = Logging::start(&database, &payments, "trace").await;
    service.floods().await;
    let mut log = service.log.take().unwrap();
    let missed = async {
        loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).await.unwrap() > 0);
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["dropped"].as_u64().is_some_and(|dropped| dropped > 0) {
                return;
            }
        }
    };
    let missed = tokio::time::timeout(PATIENCE, missed).await;
    missed.expect("the missed lines are reported");
    let pid = service.child.id().unwrap().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    let mut rest = String::new();
    let read = tokio::time::timeout(PATIENCE, log.read_to_string(&mut rest)).await;
    read.expect("the log ends").unwrap();
    assert!(
        rest.contains(r#""message":"service stopped""#),
        "the last line is there"
    );
}

#[test]
fn a_full_disk_is_no_reason_to_fail_but_for_what_was_asked_for() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    // Other output is lost, the requested output isn't.
    let said = orderd(&["openapi"]).stderr(full()).output().unwrap();
    assert_eq!(said.status.code(), Some(0));
    assert!(said.stdout.ends_with(b"}\n"));
    let mut wrong = orderd(&["serve", "--livemode", "perhaps"]);
    assert_eq!(wrong.stderr(full()).status().unwrap().code(), Some(2));
    let lost = orderd(&["openapi"]).stdout(full()).output().unwrap();
    assert_eq!(lost.status.code(), Some(1));
    let said = String::from_utf8(lost.stderr).unwrap();
    assert!(
        said.starts_with("orderd: standard output can't be written"),
        "{said}"
    );
}

/// Exit code and standard error of a command whose reader of standard output is gone.
fn unread(mut command: Command) -> (Option<i32>, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_closes_early_is_not_an_error() {
    let database = Database::sqlite();
    let with_database = |arguments: &[&str]| {
        let mut command = orderd(arguments);
        command
            .env("DATABASE_URL", &database.url)
            .env("ORDERD_LOG", "error");
        command
    };
    assert_eq!(
        unread(with_database(&["migrate"])),
        (Some(0), String::new())
    );
    assert_eq!(unread(with_database(&["audit"])), (Some(0), String::new()));
    for printed in ["openapi", "diagram"] {
        assert_eq!(unread(orderd(&[printed])), (Some(0), String::new()));
    }
    assert_eq!(unread(orderd(&["--help"])), (Some(0), String::new()));
    let drill = orderd(&[]).get_program().to_owned();
    let drill = std::path::Path::new(&drill).with_file_name("order-drill");
    let mut plan = Command::new(drill);
    plan.args(["plan", "--orders", "1"]);
    assert_eq!(unread(plan), (Some(0), String::new()));
}

/// An error is printed, and the process ends, whether or not it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_of_the_end_is_said_last() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let command = || {
        let mut command = orderd(&["serve"]);
        configure(&mut command, &database, &payments).env("ORDERD_HTTP_ADDR", &address);
        command
    };
    let ended = command().output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("orderd: ORDERD_HTTP_ADDR: "), "{said}");
    let mut child = command().stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
