//! What a service does when it is asked for too much.

use std::process::Command;
use std::time::{Duration, Instant};

use order_testkit::clear_settings;
use sqlx::Executor as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{Database, Payments, Service, eventually, orderd};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_an_exhausted_database_are_asked_to_retry() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    let mut other = database.connect().await;
    other.execute("BEGIN").await.unwrap();
    let lock = "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE";
    other.execute(lock).await.unwrap();

    let url = format!("{}/v1/orders", service.http);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let url = url.clone();
        asked.spawn(async move {
            let started = Instant::now();
            let answer = reqwest::get(url).await.unwrap();
            (answer, started.elapsed())
        });
    }
    let mut soon = 0;
    while let Some(done) = asked.join_next().await {
        let (answer, took) = done.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
        soon += usize::from(took < Duration::from_secs(4));
    }
    // All but those that had a connection, which waited for the lock.
    assert!(soon >= 30, "{soon}");
    assert!(
        service
            .counter("orderd_database_pool_timeouts_total", "api")
            .await
            > 0
    );
    assert_eq!(
        service
            .counter("orderd_database_pool_timeouts_total", "ingest")
            .await,
        0
    );

    other.execute("ROLLBACK").await.unwrap();
    eventually("the database is there again", async || {
        (service.get("/v1/orders/O1").await?.0 == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_peers_delay_no_other_caller() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    // Fewer files than peers, until the service asks for more.
    let mut command = Command::new("sh");
    clear_settings(&mut command);
    command
        .args(["-c", "ulimit -Sn 256 && exec \"$0\" serve"])
        .arg(orderd(&[]).get_program());
    let service = Service::start_command(command, &database, &payments, &[]).await;
    let address = service.http.strip_prefix("http://").unwrap();
    let mut peers = Vec::new();
    for _ in 0..400 {
        let mut peer = TcpStream::connect(address).await.unwrap();
        let half = b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\nx-slow: ";
        peer.write_all(half).await.unwrap();
        peers.push(peer);
    }
    for number in 0..20 {
        // A connection of its own each time, which has to be accepted behind theirs.
        let client = reqwest::Client::builder()
            .timeout(Duration::from_secs(5))
            .build()
            .unwrap();
        let answer = client.get(format!("{}/livez", service.http)).send().await;
        assert_eq!(answer.unwrap().status(), 200, "request {number}");
    }
    drop(peers);
}
