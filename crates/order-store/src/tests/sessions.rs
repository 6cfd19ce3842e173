//! PostgreSQL connections that die, change, or lead to a server that isn't the right one any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use order_testkit::Proxy;

use super::*;
use crate::conn::Conn;
use crate::sessions::{Asked, Epoch};
use crate::store::Backend;
use crate::{Error, WriteRefusal};

/// Sends a statement to the server past the store.
pub(super) async fn admin(db: &TestDb, statement: &str) {
    let name = database(db);
    let mut admin = PgConnection::connect(&Postgres::shared().url(&name))
        .await
        .unwrap();
    sqlx::raw_sql("SET default_transaction_read_only = off")
        .execute(&mut admin)
        .await
        .unwrap();
    let statement = AssertSqlSafe(statement.replace("$DB", &name));
    sqlx::raw_sql(statement).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
}

/// The name of a test's database.
pub(super) fn database(db: &TestDb) -> String {
    db.url.to_string().rsplit('/').next().unwrap().to_owned()
}

/// As a restart of the server does: every connection is closed from the other side.
const CUT: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// Opens as many connections as the pool may have, and leaves them idle.
async fn fill(store: &Store) {
    let busy = (0..8).map(|_| store.read("napping", (), nap));
    for done in join_all(busy).await {
        done.unwrap();
    }
    let idle: u32 = store.pools().iter().map(|pool| pool.idle).sum();
    assert_eq!(idle, 8);
}

async fn nap(conn: &mut Conn, (): &()) -> sqlx::Result<()> {
    let nap = Sql::both("SELECT 1::bigint FROM pg_sleep(0.1)");
    fetch_all!(conn, (i64,), nap).map(drop)
}

/// A setting of a connection.
async fn setting(conn: &mut Conn, name: &&'static str) -> sqlx::Result<String> {
    let setting = Sql::both("SELECT current_setting($1)");
    let rows: Vec<(String,)> = fetch_all!(conn, (String,), setting, *name)?;
    Ok(rows[0].0.clone())
}

async fn panics<C, E>(_: &mut C, (): &()) -> Result<(), E> {
    panic!("index out of bounds")
}

async fn setting_of(tx: &mut Tx, name: &&'static str) -> Result<String, Error> {
    setting(tx.conn(), name).await.map_err(doing("testing"))
}

/// Makes the next statement fail by ending the session before it.
async fn cut_off(conn: &mut Conn) {
    let own = Sql::both("SELECT (pg_backend_pid())::bigint");
    let pid: Vec<(i64,)> = fetch_all!(conn, (i64,), own).unwrap();
    let mut admin = PgConnection::connect(Postgres::shared().admin_url())
        .await
        .unwrap();
    sqlx::query("SELECT pg_terminate_backend($1::int)")
        .bind(pid[0].0)
        .execute(&mut admin)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_pooled_connections_fail_no_call() {
    let db = TestDb::postgres().await;
    let api = db.store.beside(|_| {});
    for _ in 0..3 {
        for store in [&db.store, &api] {
            fill(store).await;
        }
        admin(&db, CUT).await;
        let reads = (0..8).map(|_| db.store.get_order("O1".parse().unwrap()));
        for read in join_all(reads).await {
            read.unwrap();
        }
        let writes =
            (0..8).map(|number| api.create_order(new_order(&format!("O{number}"), 1, "EUR")));
        for written in join_all(writes).await {
            written.unwrap();
        }
    }
    db.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_began_is_not_repeated() {
    let db = TestDb::postgres().await;
    let begun = Arc::new(AtomicU32::new(0));
    let counted = begun.clone();
    let done = db.store.write(
        "testing",
        counted,
        async |tx: &mut Tx, counted: &Arc<AtomicU32>| {
            counted.fetch_add(1, Ordering::Relaxed);
            cut_off(tx.conn()).await;
            nap(tx.conn(), &()).await.map_err(doing("testing"))
        },
    );
    let error = done.await.unwrap_err();
    assert!(error.is_lost() && error.is_transient(), "{error:?}");
    assert_eq!(begun.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_always_kills_its_connection_is_given_up() {
    let db = TestDb::postgres().await;
    let begun = Arc::new(AtomicU32::new(0));
    let counted = begun.clone();
    let done = db.store.read(
        "testing",
        counted,
        async |conn: &mut Conn, counted: &Arc<AtomicU32>| {
            counted.fetch_add(1, Ordering::Relaxed);
            cut_off(conn).await;
            nap(conn, &()).await
        },
    );
    let error = done.await.unwrap_err();
    assert!(error.is_lost() && error.is_transient(), "{error:?}");
    assert_eq!(begun.load(Ordering::Relaxed), 3);
}

/// Pooled connections stay read-only for ever, wherever the address leads by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_connections_are_replaced() {
    let db = TestDb::postgres().await;
    let api = db.store.beside(|_| {});
    admin(
        &db,
        "ALTER DATABASE $DB SET default_transaction_read_only = on",
    )
    .await;
    admin(&db, CUT).await;
    let error = db.store.try_to_write().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(error.write_refusal(), Some(WriteRefusal::ReadOnly));
    assert_eq!(db.store.write_refusal(), Some(WriteRefusal::ReadOnly));
    fill(&api).await;

    admin(
        &db,
        "ALTER DATABASE $DB RESET default_transaction_read_only",
    )
    .await;
    let reset = Instant::now();
    while let Err(error) = db.store.try_to_write().await {
        assert_eq!(error.write_refusal(), Some(WriteRefusal::ReadOnly));
        assert!(reset.elapsed() < Duration::from_secs(10), "{error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(db.store.write_refusal(), None);
    // The other pool's connections were left with these, or are with a call that is refused.
    while let Err(error) = api.create_order(new_order("O0", 1, "EUR")).await {
        assert_eq!(error.write_refusal(), Some(WriteRefusal::ReadOnly));
        assert!(reset.elapsed() < Duration::from_secs(10), "{error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for number in 1..9 {
        let created = api.create_order(new_order(&format!("O{number}"), 1, "EUR"));
        created.await.unwrap();
    }
}

/// Pooled sessions keep the `search_path` that they began with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_another_schema_are_replaced() {
    let db = TestDb::postgres().await;
    admin(
        &db,
        "CREATE SCHEMA elsewhere; ALTER DATABASE $DB SET search_path = elsewhere",
    )
    .await;
    admin(&db, CUT).await;
    let error = db
        .store
        .create_order(new_order("O1", 1, "EUR"))
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let error = db.store.check_schema().await.unwrap_err();
    assert!(matches!(error, Error::SchemaTooOld { .. }), "{error:?}");

    admin(&db, "ALTER DATABASE $DB RESET search_path").await;
    let reset = Instant::now();
    while let Err(error) = db.store.check_schema().await {
        assert!(reset.elapsed() < Duration::from_secs(10), "{error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    while let Err(error) = db.store.create_order(new_order("O1", 1, "EUR")).await {
        assert!(reset.elapsed() < Duration::from_secs(10), "{error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// As a firewall does with connections that were idle for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_that_was_forgotten_on_the_way_costs_no_deadline() {
    let db = TestDb::postgres().await;
    let (proxy, url) = Proxy::before(&db.url.to_string()).unwrap();
    let mut store = Store::open(&url.parse().unwrap(), (*db.store.options).clone());
    let Backend::Postgres(sessions) = &mut store.backend else {
        panic!("not PostgreSQL")
    };
    Arc::get_mut(sessions).unwrap().doubt_after = Duration::ZERO;
    store.ping().await.unwrap();
    proxy.set_silent(true);
    let (opened, before) = (proxy.connections(), proxy.round_trips());
    let mut asked = std::pin::pin!(store.ping());
    let begun = Instant::now();
    let mut is_lost = false;
    loop {
        let waited = tokio::time::timeout(Duration::from_millis(20), asked.as_mut()).await;
        if let Ok(answer) = waited {
            answer.unwrap();
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain");
        // The first statement is lost; those after it aren't.
        proxy.set_silent(!is_lost);
        is_lost = proxy.round_trips() > before;
    }
    assert!(proxy.connections() > opened);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_a_migration_outdated_fails_no_call() {
    let db = TestDb::postgres().await;
    let order = || db.store.get_order("O1".parse().unwrap());
    db.store
        .create_order(new_order("O1", 1, "EUR"))
        .await
        .unwrap();
    order().await.unwrap();
    admin(
        &db,
        "ALTER TABLE orders ALTER COLUMN status TYPE varchar(20)",
    )
    .await;
    order().await.unwrap();
    admin(&db, "ALTER TABLE orders ALTER COLUMN status TYPE text").await;
    db.store
        .create_order(new_order("O1", 1, "EUR"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_itself_ends_what_takes_too_long() {
    let db = TestDb::postgres().await;
    admin(
        &db,
        "ALTER DATABASE $DB SET default_transaction_isolation = 'serializable'",
    )
    .await;
    let limits = [
        ("statement_timeout", "5s", "0"),
        ("lock_timeout", "2s", "0"),
        ("idle_in_transaction_session_timeout", "10s", "0"),
        ("tcp_user_timeout", "15000", "15000"),
        ("transaction_isolation", "read committed", "repeatable read"),
    ];
    let store = Store::open(&db.url, (*db.store.options).clone());
    for (name, limit, audit) in limits {
        let read = store.read("testing", name, setting);
        assert_eq!(read.await.unwrap(), limit, "{name}");
        let write = store.write("testing", name, setting_of);
        assert_eq!(write.await.unwrap(), limit, "{name}");
        let snapshot = store.snapshot("testing", name, setting_of);
        assert_eq!(snapshot.await.unwrap(), audit, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_statement_is_a_transient_fault() {
    let db = TestDb::postgres().await;
    let cancelled = db
        .store
        .read("testing", (), async |conn: &mut Conn, (): &()| {
            let cancel =
                Sql::both("SELECT (pg_cancel_backend(pg_backend_pid()))::text FROM pg_sleep(0)");
            fetch_all!(conn, (String,), cancel)?;
            nap(conn, &()).await
        });
    let error = cancelled.await.unwrap_err();
    assert!(error.is_transient() && !error.is_lost(), "{error:?}");
    db.store.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_changed_under_its_connection_is_not_used() {
    let db = TestDb::postgres().await;
    let other = Sql::both("SELECT set_config('orderd.session', 'another', false)");
    let changed = db.store.write("testing", other, execute_one);
    changed.await.unwrap();
    let error = db
        .store
        .create_order(new_order("O1", 1, "EUR"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::SessionChanged), "{error:?}");
    assert!(error.is_transient());
    // The connection is closed, the next one is sound.
    db.store
        .create_order(new_order("O1", 1, "EUR"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_or_without_the_database_says_so() {
    let db = TestDb::postgres().await;
    let role = unique_name("narrow");
    admin(&db, &format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")).await;
    let url: DatabaseUrl = db
        .url
        .to_string()
        .replace("postgres@", &format!("{role}@"))
        .parse()
        .unwrap();
    let options = StoreOptions {
        acquire_timeout: Duration::from_millis(300),
        ..StoreOptions::default()
    };
    let store = Store::open(&url, options.clone());
    let (first, second) = tokio::join!(
        store.read("testing", (), async |conn: &mut Conn, (): &()| {
            for _ in 0..5 {
                nap(conn, &()).await?;
            }
            Ok(())
        }),
        store.ping()
    );
    let error = match (first, second) {
        (Ok(()), Err(error)) | (Err(error), Ok(())) => error,
        both => panic!("{both:?}"),
    };
    assert!(error.is_transient(), "{error:?}");
    assert!(format!("{error:?}").contains("53300"), "{error:?}");
    store.ping().await.unwrap();
    store.close().await;

    let gone: DatabaseUrl = db
        .url
        .to_string()
        .replace(&database(&db), "not_there")
        .parse()
        .unwrap();
    let error = Store::open(&gone, options).ping().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(format!("{error:?}").contains("3D000"), "{error:?}");
    admin(&db, &format!("DROP ROLE {role}")).await;
}

on_both! {
    async fn a_panic_is_an_error_and_what_it_held_is_closed(db) {
        let one = db.store.beside(|options| options.connections_max = 1);
        for round in 0..4 {
            let failed = if round % 2 == 0 {
                one.read("testing", (), panics).await
            } else {
                one.write("testing", (), panics).await
            };
            let error: Error = failed.map(|(): ()| ()).unwrap_err();
            assert!(error.is_transient(), "{error:?}");
            assert!(error.to_string().contains("index out of bounds"), "{error}");
            one.create_order(new_order("O1", 1, "EUR")).await.unwrap();
            one.ping().await.unwrap();
        }
        db.assert_clean().await;
    }
}

#[test]
fn calls_that_meet_the_same_fault_replace_the_connections_once() {
    let (no_pause, long) = (Duration::ZERO, Duration::from_hours(1));
    let epoch = Epoch::default();
    assert!(epoch.leave(0, long));
    assert!(!epoch.leave(0, no_pause), "left already");
    assert!(!epoch.leave(1, long), "too soon");
    assert!(epoch.leave(1, no_pause));
    assert_eq!(Asked::default().silent_for(no_pause), None);
}
