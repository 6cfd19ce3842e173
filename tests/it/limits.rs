//! What a service does when it is asked for too much.

use std::time::{Duration, Instant};

use sqlx::Executor as _;

use crate::support::{Database, Payments, Service, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_an_exhausted_database_are_told_to_come_back() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    let mut other = database.connect().await;
    other.execute("BEGIN").await.unwrap();
    let lock = "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE";
    other.execute(lock).await.unwrap();

    let url = format!("{}/v1/orders/O1", service.http);
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
