//! Pools: apart from one another, and never waited for without end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::*;
use crate::store::Store;

/// Takes a store's connection for writes until `release` is told.
async fn occupy(store: &Store, release: &Arc<Notify>) -> tokio::task::JoinSet<()> {
    let (store, release) = (store.clone(), release.clone());
    let taken = Arc::new(Notify::new());
    let is_taken = taken.clone();
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move {
        let held = store.write("testing", move |_| {
            let (release, taken) = (release.clone(), taken.clone());
            Box::pin(async move {
                taken.notify_one();
                release.notified().await;
                Ok(())
            })
        });
        held.await.unwrap();
    });
    is_taken.notified().await;
    task
}

fn in_use(store: &Store) -> u32 {
    store.pools().iter().map(|pool| pool.in_use).sum()
}

async fn wait_until(what: impl Fn() -> bool) {
    let started = Instant::now();
    while !what() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "waited in vain"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn an_exhausted_pool_is_told_in_time(db: TestDb) {
    let api = db.store.beside(|options| {
        options.connections_max = 1;
        options.acquire_timeout = Duration::from_secs(1);
    });
    let release = Arc::new(Notify::new());
    let mut held = occupy(&api, &release).await;
    assert!(in_use(&api) >= 1);

    let started = Instant::now();
    let error = api
        .write("testing", |_| Box::pin(async { Ok(()) }))
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{error}");
    // The shared writer of SQLite would be waited for 5 s.
    assert!(started.elapsed() < Duration::from_secs(4));
    assert_eq!(
        (api.acquire_timeouts(), db.store.acquire_timeouts()),
        (1, 0)
    );
    // Whoever reads over the other pool doesn't notice.
    db.store.ping().await.unwrap();

    release.notify_one();
    held.join_next().await.unwrap().unwrap();
    wait_until(|| in_use(&api) == 0).await;
    api.write("testing", |_| Box::pin(async { Ok(()) }))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_is_told_in_time_by_postgres() {
    an_exhausted_pool_is_told_in_time(TestDb::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_is_told_in_time_by_sqlite() {
    an_exhausted_pool_is_told_in_time(TestDb::sqlite().await).await;
}
