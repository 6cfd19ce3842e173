//! The manners of the process: exit codes, signals, one file one server.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Database, Payments, Service, audit, configure, event, eventually, orderd};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_it_in_time_with_nothing_half_done() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    for number in 0..50 {
        service.create(&format!("O{number}")).await;
        payments
            .publish(event(
                "succeeded",
                &format!("tx{number}"),
                &format!("O{number}"),
                1000,
            ))
            .await;
    }
    let (code, took) = service.terminate().await;
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(12), "{took:?}");
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
    // What it acked, it committed; the rest comes again.
    let acked = payments.consumer().await.unwrap().ack_floor.stream_sequence;
    let service = Service::start(&database, &payments).await;
    for number in 0..acked {
        assert_eq!(
            service.status(&format!("O{number}")).await,
            Some(("PAID".to_owned(), 2))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_stops_probes_are_answered_and_another_sigterm_changes_nothing() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut service = Service::start(&database, &payments).await;
    let body = r#"{"order_id": "O1", "amount": 1000, "currency": "CNY"}"#;
    let address = service
        .http
        .strip_prefix("http://")
        .unwrap_or(&service.http);
    let mut caller = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    caller.write_all(head.as_bytes()).await.unwrap();
    // The answer to that says that the request is in hand.
    let mut answer = [0; 64];
    let length = caller.read(&mut answer).await.unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 100 "));
    service.signal("TERM");
    service.because("draining", &[]).await;
    service.signal("TERM");
    service.because("draining", &[]).await;
    caller.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    caller.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(service.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_on_a_sqlite_file_ends_and_an_audit_runs_beside_it() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    let mut second = orderd(&["serve"]);
    let ended = configure(&mut second, &database, &payments)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("another process"));
    assert_eq!(audit(&database).0, Some(0));
    drop(service);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_broker_it_runs_and_is_not_ready() {
    let server = order_testkit::Nats::start().unwrap();
    let payments = Payments::on(server.url()).await;
    drop(server);
    let database = Database::sqlite();
    let service = Service::start_unready(&database, &payments).await;
    service.create("O1").await;
    let (status, body) = service.get("/readyz").await.unwrap();
    assert_eq!(
        (status, body["checks"]["broker"].as_str()),
        (503, Some("down"))
    );
    assert_eq!(service.get("/livez").await.unwrap().0, 200);
    assert_eq!(service.terminate().await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_prints_findings_and_says_so_with_its_exit_code() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    service.paid("O1").await;
    service.terminate().await;
    database.tamper("UPDATE orders SET version = 7").await;
    let (code, printed) = audit(&database);
    assert_eq!(code, Some(3), "{printed}");
    assert!(
        printed.contains("A1 O1: version 7, 2 transitions"),
        "{printed}"
    );
    assert!(printed.ends_with("1 finding(s)\n"), "{printed}");
}

#[test]
fn wrong_usage_and_settings_end_with_2_and_name_what_is_wrong() {
    let check = |arguments: &[&str], env: &[(&str, &str)], said: &str| {
        let mut command = orderd(arguments);
        let ended = command.envs(env.iter().copied()).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    };
    check(&[], &[], "Usage");
    check(&["sirve"], &[], "sirve");
    check(&["serve", "--nonsense"], &[], "--nonsense");
    check(
        &["serve"],
        &[("ORDERD_LIVEMODE", "maybe")],
        "ORDERD_LIVEMODE",
    );
    check(&["serve"], &[("ORDERD_LIVEMOD", "true")], "ORDERD_LIVEMOD");
    check(&["serve", "--pay-within", "30"], &[], "--pay-within");
    check(
        &["serve"],
        &[("ORDERD_HTTP_ADDR", "0.0.0.0:80")],
        "ORDERD_HTTP_ADDR",
    );
    check(
        &["audit"],
        &[("DATABASE_URL", "mysql://ann:s3cret@db/x")],
        "ann:***@db",
    );
    check(
        &["serve", "--config", "/nonexistent.toml"],
        &[],
        "/nonexistent.toml",
    );
}

#[test]
fn migrations_are_applied_by_a_command_of_their_own_too() {
    let database = Database::sqlite();
    let run = |arguments: &[&str]| {
        let ended = orderd(arguments)
            .env("DATABASE_URL", &database.url)
            .output()
            .unwrap();
        (
            ended.status.code(),
            String::from_utf8(ended.stdout).unwrap(),
        )
    };
    assert_eq!(run(&["serve", "--no-migrate"]).0, Some(1));
    assert_eq!(run(&["audit"]).0, Some(1));
    let (code, printed) = run(&["migrate"]);
    assert_eq!(code, Some(0));
    assert!(
        printed.ends_with("migration(s) applied\n") && !printed.starts_with('0'),
        "{printed}"
    );
    assert_eq!(
        run(&["migrate"]),
        (Some(0), "0 migration(s) applied\n".to_owned())
    );
    assert_eq!(run(&["audit"]), (Some(0), "0 finding(s)\n".to_owned()));
}

#[test]
fn documents_are_printed_without_any_setting() {
    let openapi = orderd(&["openapi"]).output().unwrap();
    assert_eq!(openapi.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&openapi.stdout).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let diagram = orderd(&["diagram"]).output().unwrap();
    assert!(
        String::from_utf8(diagram.stdout)
            .unwrap()
            .contains("NOT_PAID --> PAID: pay")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_line_holds_a_password_or_a_body() {
    let (mut database, payments) = (Database::postgres().await, Payments::new().await);
    database.url = database.url.replacen("postgres@", "postgres:s3cret@", 1);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    payments.publish("poison s3cret body").await;
    service.paid("O1").await;
    payments.drained().await;
    eventually("the log says that it serves", async || {
        service.log().contains("service started").then_some(())
    })
    .await;
    assert!(!service.log().contains("s3cret"), "{}", service.log());
}
