//! Databases that this service can't work with are refused before anything is written.

use order_testkit::Pgbouncer;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::*;
use crate::error::Unfit;
use crate::tests::sessions::database;
use crate::{Batch, Error};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_in_another_encoding_is_refused() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = unique_name("encoded");
        let mut admin = PgConnection::connect(Postgres::shared().admin_url())
            .await
            .unwrap();
        let create =
            format!("CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
        sqlx::raw_sql(AssertSqlSafe(create))
            .execute(&mut admin)
            .await
            .unwrap();
        let url = Postgres::shared().url(&name);
        let store = Store::open(&url.parse().unwrap(), StoreOptions::default());
        for migrate in [true, false] {
            let error = store.prepare(migrate).await.unwrap_err();
            assert!(!error.is_transient(), "{error:?}");
            assert!(error.to_string().contains("UTF8"), "{error}");
            assert!(
                matches!(&error, Error::Unfit(Unfit::Encoding { encoding: found, .. }) if found == encoding),
                "{error:?}"
            );
        }
        let mut looked = PgConnection::connect(&url).await.unwrap();
        let tables = sqlx::query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'");
        let tables: i64 = tables.fetch_one(&mut looked).await.unwrap().get(0);
        assert_eq!(tables, 0, "something was written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_lends_sessions_by_the_transaction_is_refused() {
    let db = TestDb::postgres().await;
    for mode in ["transaction", "statement"] {
        let pooler = Pgbouncer::start(Postgres::shared(), mode).unwrap();
        let url = pooler.url(&database(&db));
        let store = Store::open(&url.parse().unwrap(), StoreOptions::default());
        for migrate in [true, false] {
            let error = store.prepare(migrate).await.unwrap_err();
            assert!(
                matches!(error, Error::Unfit(Unfit::Pooler)),
                "{mode}: {error:?}"
            );
            assert!(!error.is_transient());
            assert!(error.to_string().contains("session mode"), "{error}");
        }
    }
}

/// Without `ignore_startup_parameters`, with sessions that were used before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_session_mode_is_accepted() {
    let db = TestDb::postgres().await;
    let pooler = Pgbouncer::start(Postgres::shared(), "session").unwrap();
    let url: DatabaseUrl = pooler.url(&database(&db)).parse().unwrap();
    for round in 0..3 {
        let store = Store::open(&url, StoreOptions::default());
        assert_eq!(store.prepare(true).await.unwrap(), 0);
        let calls = (0..8).map(|number| {
            let (store, id) = (store.clone(), format!("O{round}-{number}"));
            async move {
                store
                    .create_order(new_order(&id, 1000, "EUR"))
                    .await
                    .unwrap();
                let facts = vec![fact(&format!("succeeded tx{id} {id} 1000 EUR"))];
                let batch = Batch {
                    facts,
                    dead_letters: Vec::new(),
                };
                assert_eq!(
                    store.record_payments(batch).await.unwrap(),
                    [Verdict::Applied]
                );
                store.get_order(id.parse().unwrap()).await.unwrap().unwrap();
            }
        });
        futures_util::future::join_all(calls).await;
        store.close().await;
    }
    db.assert_clean().await;
}
