//! What a cancelled caller, a hostile default or a busy pool must not break.

use std::future::Future as _;
use std::task::{Context, Poll, Waker};

use order_fsm::{OrderStatus, Verdict};
use sqlx::{Connection as _, PgConnection};

use super::*;
use crate::Batch;
use crate::conn::Conn;

on_both! {
    async fn a_dropped_call_is_carried_out_whole_and_leaves_the_pool_clean(db) {
        let store = db.store.with_options(|options| options.clock = Clock::Database);
        for round in 0..50 {
            let id = format!("O{round}");
            let mut call = Box::pin(store.create_order(new_order(&id, 1000, "EUR")));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..round % 4 {
                if let Poll::Ready(done) = call.as_mut().poll(&mut context) {
                    done.unwrap();
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(call);
            let created = store.create_order(new_order(&id, 1000, "EUR")).await.unwrap();
            assert!(!matches!(created, crate::CreateOutcome::Differs(_)));
            let paid = format!("succeeded tx{round} O{round} 1000 EUR");
            assert_eq!(record(&store, &[&paid]).await, [Verdict::Applied]);
            // Another connection sees it: it was committed.
            let order = store.get_order(id.parse().unwrap()).await.unwrap().unwrap();
            assert_eq!(order.status, OrderStatus::Paid);
        }
        db.assert_clean().await;
    }

    async fn more_callers_than_connections_all_get_their_turn(db) {
        let store = db.store.clone();
        let calls = (0..64).map(|number| {
            let store = store.clone();
            async move { store.create_order(new_order(&format!("O{number}"), 1, "EUR")).await }
        });
        for created in futures_util::future::join_all(calls).await {
            created.unwrap();
        }
        db.assert_clean().await;
    }

    async fn an_error_inside_a_transaction_leaves_nothing_behind(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        // The last step of the batch fails: a version that is there already.
        db.tamper("INSERT INTO transitions (order_id, version, from_status, to_status, event, source, actor, at)
                   SELECT order_id, 2, from_status, to_status, event, source, actor, at FROM transitions").await;
        let facts = vec![fact("succeeded tx1 O1 1000 EUR"), fact("failed tx2 O1 1000 EUR")];
        let failed = db.store.record_payments(Batch { facts, dead_letters: Vec::new() }).await.unwrap_err();
        assert_eq!(failed.to_string(), "inconsistent orders.version of \"O1\"");
        assert!(!failed.is_data() && !failed.is_transient(), "{failed:?}");
        let left = db.store.order_payments("O1".parse().unwrap(), Place::START, 10).await.unwrap().items;
        assert!(left.is_empty(), "{left:?}");
        db.tamper("DELETE FROM transitions WHERE version = 2").await;
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Verdict::Applied]);
        db.assert_clean().await;
    }

    async fn every_guarded_update_changes_the_version(db) {
        db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        let before = db.store.get_order("O1".parse().unwrap()).await.unwrap().unwrap();
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        let after = db.store.get_order("O1".parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(after.version, before.version + 1);
    }
}

#[tokio::test]
async fn sqlite_commits_survive_a_power_failure() {
    let db = TestDb::sqlite().await;
    let settings = db.store.write("testing", (), async |tx: &mut Tx, (): &()| {
        let Conn::Sqlite(c) = tx.conn() else {
            panic!("not SQLite")
        };
        let journal: (String,) = sqlx::query_as("PRAGMA journal_mode")
            .fetch_one(&mut **c)
            .await
            .unwrap();
        let synchronous: (i64,) = sqlx::query_as("PRAGMA synchronous")
            .fetch_one(&mut **c)
            .await
            .unwrap();
        let version: (String,) = sqlx::query_as("SELECT sqlite_version()")
            .fetch_one(&mut **c)
            .await
            .unwrap();
        Ok((journal.0, synchronous.0, version.0))
    });
    let (journal, synchronous, version) = settings.await.unwrap();
    assert_eq!((journal.as_str(), synchronous), ("wal", 2));
    let version: Vec<u32> = version
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect();
    assert!(
        version >= vec![3, 51, 3],
        "{version:?}: the WAL-reset bug is fixed in 3.51.3"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_defaults_to_serializable_changes_nothing() {
    for level in ["repeatable read", "serializable"] {
        let db = TestDb::postgres().await;
        let url = db.url.to_string();
        let name = url.rsplit('/').next().unwrap().to_owned();
        let mut admin = PgConnection::connect(Postgres::shared().admin_url())
            .await
            .unwrap();
        let alter = format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(alter))
            .execute(&mut admin)
            .await
            .unwrap();
        let fresh = Store::open(&db.url, (*db.store.options).clone());
        race::rounds(&fresh, 1, 5).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_past_its_deadline_never_returns_to_the_pool() {
    let db = TestDb::postgres().await;
    let store = db.store.with_options(|options| options.connections_max = 1);
    let hung = store.write("testing", (), async |tx: &mut Tx, (): &()| {
        let Conn::Postgres(c) = tx.conn() else {
            panic!("not PostgreSQL")
        };
        sqlx::query("SELECT pg_sleep(60)")
            .execute(&mut **c)
            .await
            .map_err(doing("hanging"))
    });
    let error = hung.await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    store.create_order(new_order("O1", 1, "EUR")).await.unwrap();
    db.assert_clean().await;
}
