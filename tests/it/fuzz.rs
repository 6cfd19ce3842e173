//! Everything that the document allows, and much that it doesn't, sent to a service by schemathesis.
//!
//! `scripts/fuzz` finds the program and says how long to go on; without it there is nothing to do.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Database, Payments, Service, audit, event, eventually, orderd};

/// Rounds at most: each sends something, or the program is broken.
const ROUNDS_MAX: usize = 1000;

/// Cases per operation of one round.
const EXAMPLES: &str = "40";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_follow_the_document_do_not_break_the_service() {
    let Ok(program) = std::env::var("ORDERD_SCHEMATHESIS") else {
        eprintln!("not run: scripts/fuzz runs it");
        return;
    };
    let cases: usize = std::env::var("ORDERD_FUZZ_CASES").unwrap().parse().unwrap();
    let database = match std::env::var("ORDERD_FUZZ_DATABASE").unwrap().as_str() {
        "sqlite" => Database::sqlite(),
        "postgres" => Database::postgres().await,
        other => panic!("{other}: sqlite or postgres"),
    };
    let payments = Payments::new().await;
    let tokens = std::env::temp_dir().join(order_testkit::unique_name("orderd_fuzz"));
    let secret = token(&tokens);
    let settings = [
        ("ORDERD_TOKENS_FILE", tokens.to_str().unwrap()),
        ("ORDERD_LOG", "info"),
    ];
    let service = Service::start_with(&database, &payments, &settings).await;
    eventually("the service is ready", async || {
        (service.get("/readyz").await?.0 == 200).then_some(())
    })
    .await;

    let fuzz = Fuzz {
        program,
        service,
        payments,
        secret,
    };
    let mut sent = 0;
    for round in 0..ROUNDS_MAX {
        if sent >= cases {
            break;
        }
        let known = fuzz.prepare(round).await;
        sent += fuzz.round(&known).await;
        eprintln!("{sent} of {cases} cases, no fault");
    }
    assert!(sent >= cases, "{sent} cases in {ROUNDS_MAX} rounds");

    let metrics = fuzz.text("/metrics").await;
    let faults: Vec<&str> = metrics
        .lines()
        .filter(|line| {
            line.starts_with("orderd_http_requests_total") && line.contains("status=\"5")
        })
        .filter(|line| !line.contains("route=\"/readyz\""))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(metrics.contains(r#"connections{pool="api",state="in_use"} 0"#));
    let log = fuzz.service.log();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let (code, findings) = audit(&database);
    assert_eq!(code, Some(0), "{findings}");
    let _ = std::fs::remove_file(tokens);
}

/// Makes a token that may do everything.
fn token(file: &Path) -> String {
    let scopes = "orders:read,orders:write,ops";
    let made = orderd(&["token", "--name", "fuzz", "--scopes", scopes])
        .env("ORDERD_TOKENS_FILE", file)
        .output()
        .unwrap();
    assert!(made.status.success());
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

struct Fuzz {
    program: String,
    service: Service,
    payments: Payments,
    secret: String,
}

impl Fuzz {
    /// Orders in every status, open exceptions and dead letters; their ids.
    async fn prepare(&self, round: usize) -> Value {
        let mut orders = Vec::new();
        for number in 0..8 {
            let id = format!("R{round}-{number}");
            let body = json!({"order_id": id, "amount": 1000, "currency": "EUR"});
            let request = reqwest::Client::new()
                .post(format!("{}/v1/orders", self.service.http))
                .header("content-type", "application/json")
                .bearer_auth(&self.secret)
                .body(body.to_string());
            assert_eq!(request.send().await.unwrap().status(), 201);
            // The last ones stay unpaid, or are paid wrongly.
            for (payment, amount) in [("a", 1000), ("b", 1000), ("c", 7)] {
                if number < 6 || (number == 6 && payment == "c") {
                    let transaction = format!("{id}-{payment}");
                    let event = event("succeeded", &transaction, &id, amount);
                    self.payments.publish(event).await;
                }
            }
            self.payments.publish(format!("poison {id}")).await;
            orders.push(id);
        }
        self.payments.drained().await;
        let known = json!({
            "orders": orders,
            "exceptions": self.ids("/v1/payment-exceptions?state=open&limit=200").await,
            "letters": self.ids("/v1/dead-letters?state=open&limit=200").await,
        });
        assert!(!known["exceptions"].as_array().unwrap().is_empty());
        assert!(!known["letters"].as_array().unwrap().is_empty());
        known
    }

    async fn ids(&self, path: &str) -> Vec<Value> {
        let page: Value = serde_json::from_str(&self.text(path).await).unwrap();
        let items = page["items"].as_array().unwrap();
        items.iter().map(|item| item["id"].clone()).collect()
    }

    async fn text(&self, path: &str) -> String {
        let request = reqwest::Client::new().get(format!("{}{path}", self.service.http));
        let answer = request.bearer_auth(&self.secret).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap()
    }

    /// One run of the program; how many cases it sent.
    async fn round(&self, known: &Value) -> usize {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        let mut command = tokio::process::Command::new(&self.program);
        command
            .arg("--config-file")
            .arg(folder.join("schemathesis.toml"))
            .args(["run", &format!("{}/openapi.json", self.service.http)])
            .args([
                "--header",
                &format!("Authorization: Bearer {}", self.secret),
            ])
            // Several workers trip over a fault of CPython 3.11.
            .args(["--checks", "all", "--workers", "1"])
            .args(["--max-examples", EXAMPLES, "--request-timeout", "40"])
            .args(["--generation-database", "none", "--no-color"])
            .args(["--warnings", "off"])
            .current_dir(std::env::temp_dir())
            .env("SCHEMATHESIS_HOOKS", folder.join("hooks.py"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("FUZZ_KNOWN", known.to_string())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let ended = command.output().await.unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        let complained = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{said}\n{complained}");
        let sent = said
            .lines()
            .find_map(|line| line.trim().split_once(" generated")?.0.parse().ok());
        sent.unwrap_or_else(|| panic!("no count in {said}"))
    }
}
