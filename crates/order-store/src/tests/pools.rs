//! Pools: apart from one another, and never waited for without end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::sessions::admin;
use super::*;
use crate::Starved;
use crate::store::Store;

/// Takes a store's connection for writes until `release` is notified.
async fn occupy(store: &Store, release: &Arc<Notify>) -> tokio::task::JoinSet<()> {
    let (store, release) = (store.clone(), release.clone());
    let taken = Arc::new(Notify::new());
    let is_taken = taken.clone();
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move {
        let held = store.write("testing", (release, taken), hold);
        held.await.unwrap();
    });
    is_taken.notified().await;
    task
}

async fn hold(_: &mut Tx, (release, taken): &(Arc<Notify>, Arc<Notify>)) -> Result<(), Error> {
    taken.notify_one();
    release.notified().await;
    Ok(())
}

async fn nothing(_: &mut Tx, (): &()) -> Result<(), Error> {
    Ok(())
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

async fn an_exhausted_pool_is_reported_in_time(db: TestDb) {
    let api = db.store.beside(|options| {
        options.connections_max = 1;
        options.acquire_timeout = Duration::from_secs(1);
    });
    let release = Arc::new(Notify::new());
    let mut held = occupy(&api, &release).await;
    assert!(in_use(&api) >= 1);

    let started = Instant::now();
    let error = api.write("testing", (), nothing).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    // The shared writer of SQLite would be waited for 5 s.
    assert!(started.elapsed() < Duration::from_secs(4));
    assert_eq!(
        (api.acquire_timeouts(), db.store.acquire_timeouts()),
        (1, 0)
    );
    // Reads over the other pool aren't affected.
    db.store.ping().await.unwrap();

    release.notify_one();
    held.join_next().await.unwrap().unwrap();
    wait_until(|| in_use(&api) == 0).await;
    api.write("testing", (), nothing).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_is_reported_in_time_by_postgres() {
    an_exhausted_pool_is_reported_in_time(TestDb::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exhausted_pool_is_reported_in_time_by_sqlite() {
    an_exhausted_pool_is_reported_in_time(TestDb::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_without_a_connection_says_so_whatever_another_pool_still_has() {
    let db = TestDb::postgres().await;
    let role = unique_name("narrow");
    admin(&db, &format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")).await;
    let url = db.url.to_string();
    let url = url.replace("postgres@", &format!("{role}@"));
    let store = Store::open(&url.parse().unwrap(), StoreOptions::default());
    let api = store.beside(|options| options.acquire_timeout = Duration::from_secs(1));
    // The only connection stays in this pool.
    store.ping().await.unwrap();
    assert_eq!(api.starved().await, None, "no caller has missed one yet");
    api.ping().await.unwrap_err();
    store.ping().await.unwrap();
    assert_eq!(store.starved().await, None);
    assert_eq!(api.starved().await, Some(Starved::TooManyClients));
    // Without any call, the pool notices that there is room again.
    admin(&db, &format!("ALTER ROLE {role} CONNECTION LIMIT 2")).await;
    assert_eq!(api.starved().await, None);
    api.ping().await.unwrap();
    store.close().await;
    api.close().await;
    admin(&db, &format!("DROP ROLE {role}")).await;
}
