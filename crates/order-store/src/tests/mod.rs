//! One suite over both databases. A missing PostgreSQL fails it.

mod contract;
mod durability;
mod idempotency;
mod listing;
mod moved;
mod outbox;
mod people;
mod plans;
mod pools;
mod prepares;
mod race;
mod reconcile;
mod schema;

use std::path::PathBuf;

use order_fsm::{Content, PaymentKey, Verdict};
use order_testkit::{Postgres, unique_name};
use time::OffsetDateTime;
use time::macros::datetime;

use crate::conn::Sql;
use crate::conn::fetch_all;
use crate::error::doing;
use crate::{Clock, DatabaseUrl, NewOrder, PaymentFact, Source, Store, StoreOptions};

pub(crate) const NOW: OffsetDateTime = datetime!(2026-11-29 08:00:00.123456 UTC);

pub(crate) const REFUSED_AS: crate::RefusedAs = crate::RefusedAs {
    illegal: "illegal-transition",
    money_held: "payment-recorded",
};

/// Runs a test on PostgreSQL and on SQLite.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($db:ident) $body:block)*) => {
        $($(#[$meta])* mod $name {
            use super::*;

            async fn case($db: &TestDb) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                case(&TestDb::postgres().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                case(&TestDb::sqlite().await).await;
            }
        })*
    };
}
pub(crate) use on_both;

/// A migrated database of its own.
pub(crate) struct TestDb {
    pub(crate) store: Store,
    pub(crate) url: DatabaseUrl,
    folder: Option<PathBuf>,
}

impl TestDb {
    pub(crate) async fn postgres() -> Self {
        Self::migrated(empty_postgres().await, None).await
    }

    pub(crate) async fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(unique_name("orderd_store"));
        std::fs::create_dir(&folder).unwrap();
        let url = format!("sqlite://{}/orderd.db", folder.display());
        Self::migrated(url.parse().unwrap(), Some(folder)).await
    }

    async fn migrated(url: DatabaseUrl, folder: Option<PathBuf>) -> Self {
        let options = StoreOptions {
            connections_max: 8,
            clock: Clock::Fixed(NOW),
            ..StoreOptions::default()
        };
        let store = Store::open(&url, options);
        store.migrate().await.unwrap();
        Self { store, url, folder }
    }

    /// The store at another time.
    pub(crate) fn at(&self, now: OffsetDateTime) -> Store {
        self.store
            .with_options(|options| options.clock = Clock::Fixed(now))
    }

    /// Exceptions as `VERDICT transaction order amount currency state`, sorted.
    pub(crate) async fn exceptions(&self) -> Vec<String> {
        const EXCEPTIONS: Sql = Sql::both(
            "SELECT verdict || ' ' || transaction_id || ' ' || order_id || ' ' || amount || ' '
                    || currency || ' ' || state
               FROM payment_exceptions
              ORDER BY 1",
        );
        self.strings(EXCEPTIONS).await
    }

    pub(crate) async fn strings(&self, sql: Sql) -> Vec<String> {
        let rows = self.store.read(move |conn| {
            Box::pin(async move { fetch_all!(conn, (String,), sql).map_err(doing("testing")) })
        });
        rows.await.unwrap().into_iter().map(|row| row.0).collect()
    }

    /// Breaks the data on purpose.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        let done = self.store.write("testing", move |tx| {
            Box::pin(async move {
                crate::conn::execute!(tx.conn(), Sql::both(statement)).map_err(doing("tampering"))
            })
        });
        assert!(done.await.unwrap() > 0, "{statement} changed nothing");
    }

    pub(crate) async fn assert_clean(&self) {
        let findings = self.store.audit().await.unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // Left behind if the database still holds a file; the system's cleaner takes it then.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// A new database on the shared PostgreSQL.
pub(crate) async fn empty_postgres() -> DatabaseUrl {
    use sqlx::Connection as _;

    let server = Postgres::shared();
    let name = unique_name("store");
    let mut admin = sqlx::PgConnection::connect(server.admin_url())
        .await
        .unwrap();
    let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(create).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    server.url(&name).parse().unwrap()
}

pub(crate) fn new_order(id: &str, amount: i64, currency: &str) -> NewOrder {
    NewOrder {
        order_id: id.parse().unwrap(),
        amount: amount.try_into().unwrap(),
        currency: currency.parse().unwrap(),
        pay_by: None,
        actor: "shop".to_owned(),
    }
}

pub(crate) fn content(order_id: &str, amount: i64, currency: &str) -> Content {
    Content {
        order_id: order_id.parse().unwrap(),
        amount: amount.try_into().unwrap(),
        currency: currency.parse().unwrap(),
    }
}

pub(crate) fn key(transaction_id: &str, kind: &str) -> PaymentKey {
    PaymentKey {
        provider: "acme".parse().unwrap(),
        transaction_id: transaction_id.parse().unwrap(),
        kind: kind.parse().unwrap(),
    }
}

/// A fact written as `kind transaction order amount currency`, e.g. `succeeded tx1 O1 1000 EUR`.
pub(crate) fn fact(text: &str) -> PaymentFact {
    let words: Vec<&str> = text.split(' ').collect();
    let [kind, transaction_id, order_id, amount, currency] = words[..] else {
        panic!("{text:?} has not five words")
    };
    PaymentFact {
        key: key(transaction_id, kind),
        event_id: Some("ev".parse().unwrap()),
        content: content(order_id, amount.parse().unwrap(), currency),
        occurred_at: NOW,
        livemode: true,
        source: Source::Event,
    }
}

/// Records facts in one batch.
pub(crate) async fn record(store: &Store, facts: &[&str]) -> Vec<Verdict> {
    let facts = facts.iter().map(|text| fact(text)).collect();
    store
        .record_payments(crate::Batch {
            facts,
            dead_letters: Vec::new(),
        })
        .await
        .unwrap()
}
