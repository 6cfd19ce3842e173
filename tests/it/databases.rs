//! Databases that answer and still can't be worked with: read-only, restarted, behind a pooler, in another encoding, gone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use order_testkit::{Pgbouncer, Postgres, unique_name};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::support::{Database, Payments, Service, audit, configure, event, eventually, orderd};

/// Says something to a server past the service.
async fn say(url: &str, statement: &str) {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let statement = AssertSqlSafe(statement.to_owned());
    sqlx::raw_sql(statement).execute(&mut conn).await.unwrap();
    conn.close().await.unwrap();
}

/// Waits until the probe says that the database is up.
async fn is_up(service: &Service) {
    eventually("the database is up", async || {
        let (_, body) = service.get("/readyz").await?;
        (body["checks"]["database"] == "up").then_some(())
    })
    .await;
}

/// Waits until the probe says that the database is down, and why.
async fn is_down(service: &Service, why: &str) {
    eventually("the probe says why the database is down", async || {
        let (status, body) = service.get("/readyz").await?;
        let is_down = status == 503 && body["checks"]["database"] == "down";
        (is_down && body["reasons"].to_string().contains(why)).then_some(())
    })
    .await;
}

/// Creates an order; returns the answer.
async fn try_to_create(service: &Service, id: &str) -> u16 {
    let order = json!({"order_id": id, "amount": 1000, "currency": "EUR"});
    service.post("/v1/orders", &order).await.0
}

/// How much of what was delivered is acked.
async fn acked(payments: &Payments) -> u64 {
    payments.consumer().await.unwrap().ack_floor.stream_sequence
}

/// The pooled connections stay read-only for ever: only others find out that they may write again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_database_is_not_ready_and_is_written_again_within_seconds() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    let name = database.url.rsplit('/').next().unwrap();
    let admin = Postgres::shared().admin_url();
    let read_only = format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on;
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    );
    say(admin, &read_only).await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    is_down(&service, "read-only").await;
    assert_eq!(try_to_create(&service, "O2").await, 503);
    assert_eq!(acked(&payments).await, 0);

    say(
        admin,
        &format!("ALTER DATABASE {name} RESET default_transaction_read_only"),
    )
    .await;
    let reset = Instant::now();
    is_up(&service).await;
    service.paid("O1").await;
    eventually("orders are created again", async || {
        (try_to_create(&service, "O2").await == 201).then_some(())
    })
    .await;
    assert!(
        reset.elapsed() < Duration::from_secs(15),
        "{:?}",
        reset.elapsed()
    );
    payments.drained().await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// As after a failover to a server that isn't promoted yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_not_ready_until_it_is_promoted() {
    let mut server = Postgres::start().unwrap();
    let (database, payments) = (Database::on(&server).await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    server.stop().unwrap();
    let data = server.folder().unwrap().join("data");
    std::fs::write(data.join("standby.signal"), "").unwrap();
    server.start_again().unwrap();
    is_down(&service, "read-only").await;
    // What can be read is read.
    assert_eq!(service.status("O1").await, Some(("NOT_PAID".to_owned(), 1)));
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    say(server.admin_url(), "SELECT pg_promote()").await;
    is_up(&service).await;
    service.paid("O1").await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_database_is_noticed_by_no_caller() {
    let mut server = Postgres::start().unwrap();
    let (database, payments) = (Database::on(&server).await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    let crowd = |round: u32| {
        let service = &service;
        join_all((0..40).map(move |number| async move {
            let id = format!("O{round}-{number}");
            (
                try_to_create(service, &id).await,
                service.get(&format!("/v1/orders/{id}")).await.unwrap().0,
            )
        }))
    };
    for round in 0..3 {
        for answers in crowd(round).await {
            assert_eq!(answers, (201, 200), "round {round}");
        }
        if round == 1 {
            server.kill().unwrap();
        } else {
            server.stop().unwrap();
        }
        server.start_again().unwrap();
        is_up(&service).await;
    }
    for answers in crowd(3).await {
        assert_eq!(answers, (201, 200));
    }
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_by_every_command() {
    let (mut database, payments) = (Database::postgres().await, Payments::new().await);
    let migrated = orderd(&["migrate"])
        .env("DATABASE_URL", &database.url)
        .output()
        .unwrap();
    assert_eq!(migrated.status.code(), Some(0));
    let pooler = Pgbouncer::start(Postgres::shared(), "transaction").unwrap();
    database.url = pooler.url(database.url.rsplit('/').next().unwrap());
    let since = "2026-11-29T00:00:00Z";
    for arguments in [
        &["serve"][..],
        &["serve", "--no-migrate"],
        &["migrate"],
        &["audit"],
        &["reconcile"],
        &["republish", "--since", since],
    ] {
        let mut command = orderd(arguments);
        let ended = configure(&mut command, &database, &payments)
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains("pooler") && said.contains("session mode"),
            "{arguments:?}: {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_session_mode_is_served_through() {
    let (mut database, payments) = (Database::postgres().await, Payments::new().await);
    let pooler = Pgbouncer::start(Postgres::shared(), "session").unwrap();
    database.url = pooler.url(database.url.rsplit('/').next().unwrap());
    for round in 0..2 {
        let service = Service::start(&database, &payments).await;
        for number in 0..20 {
            let id = format!("O{round}-{number}");
            service.create(&id).await;
            payments
                .publish(event("succeeded", &format!("tx-{id}"), &id, 1000))
                .await;
        }
        for number in 0..20 {
            service.paid(&format!("O{round}-{number}")).await;
        }
        assert_eq!(service.terminate().await.0, Some(0));
    }
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// Payments are recorded meanwhile: only commands with a key need this table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_another_session_locks_makes_the_service_not_ready() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    is_up(&service).await;
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let lock = "BEGIN; LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    service.paid("O1").await;
    is_down(&service, "idempotency_keys").await;
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    is_up(&service).await;
}

/// A migration waits without a limit, and is given up when the service is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_waits_for_a_migration_is_stopped() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let migrated = orderd(&["migrate"])
        .env("DATABASE_URL", &database.url)
        .output()
        .unwrap();
    assert_eq!(migrated.status.code(), Some(0));
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let lock = "BEGIN; LOCK TABLE _sqlx_migrations IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    // A transaction sees the activity of its beginning for ever.
    let mut looking = PgConnection::connect(&database.url).await.unwrap();

    let mut command = orderd(&["serve"]);
    configure(&mut command, &database, &payments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut serve = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("the service waits for the lock", async || {
        const WAITING: &str = "SELECT 1 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = sqlx::raw_sql(WAITING).fetch_optional(&mut looking);
        waiting.await.unwrap().map(|_| ())
    })
    .await;
    let pid = serve.id().unwrap().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &pid])
        .status();
    assert!(sent.unwrap().success());
    let ended = tokio::time::timeout(Duration::from_secs(12), serve.wait());
    assert_eq!(ended.await.unwrap().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_another_encoding_is_refused_with_the_way_out() {
    let (mut database, payments) = (Database::postgres().await, Payments::new().await);
    let name = unique_name("latin");
    let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    say(Postgres::shared().admin_url(), &create).await;
    database.url = Postgres::shared().url(&name);
    let mut command = orderd(&["serve"]);
    let ended = configure(&mut command, &database, &payments)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("LATIN1") && said.contains("ENCODING 'UTF8'"),
        "{said}"
    );
}

/// The path of a SQLite file, and a place beside it.
fn paths(database: &Database) -> (PathBuf, PathBuf) {
    let path = Path::new(database.url.strip_prefix("sqlite://").unwrap());
    (path.to_owned(), path.with_extension("aside"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_sqlite_file_is_not_written_on() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    let (path, aside) = paths(&database);
    std::fs::rename(&path, &aside).unwrap();
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    is_down(&service, "the database file is gone").await;
    assert_eq!(try_to_create(&service, "O2").await, 503);
    eventually("the log names the file", async || {
        let gone = format!("{} is gone", path.display());
        service.log().contains(&gone).then_some(())
    })
    .await;
    assert_eq!(acked(&payments).await, 0);
    assert!(!path.exists(), "an empty file was made in its place");

    std::fs::rename(&aside, &path).unwrap();
    service.paid("O1").await;
    is_up(&service).await;
    payments.drained().await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// A restored copy, or a volume that was mounted again: only a new start opens it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_sqlite_file_ends_the_service() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut service = Service::start(&database, &payments).await;
    service.create("O1").await;
    let (path, aside) = paths(&database);
    std::fs::copy(&path, &aside).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(service.ended().await, Some(1));
    assert!(
        service
            .log()
            .contains("another file than the one that was opened")
    );
}
