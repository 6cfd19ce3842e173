//! One suite over both databases. A missing PostgreSQL fails it.

mod batches;
mod contract;
mod damaged_audit;
mod damaged_lists;
mod damaged_runs;
mod durability;
mod files;
mod fitness;
mod gets;
mod given_up;
mod held;
mod hot;
mod idempotency;
mod leases;
mod listing;
mod loosen;
mod migrating;
mod moved;
mod outbox;
mod people;
mod plans;
mod pools;
mod prepares;
mod race;
mod recheck;
mod reconcile;
mod rows;
mod schema;
mod sessions;
mod writes;

use order_fsm::{Content, PaymentKey, Verdict};
use order_testkit::{Postgres, unique_name};
use tempfile::TempDir;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::conn::Conn;
use crate::error::doing;
use crate::run::{execute, fetch_all};
use crate::sql::Sql;
use crate::tx::Tx;
use crate::{
    Clock, DatabaseUrl, Error, Listed as _, NewOrder, PaymentFact, Place, Source, Store,
    StoreOptions,
};

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
    /// Removed with the test.
    _folder: Option<TempDir>,
}

impl TestDb {
    pub(crate) async fn postgres() -> Self {
        Self::migrated(empty_postgres().await, None).await
    }

    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/orderd.db", folder.path().display());
        Self::migrated(url.parse().unwrap(), Some(folder)).await
    }

    async fn migrated(url: DatabaseUrl, folder: Option<TempDir>) -> Self {
        let options = StoreOptions {
            connections_max: 8,
            clock: Clock::Fixed(NOW),
            ..StoreOptions::default()
        };
        let store = Store::open(&url, options);
        store.migrate().await.unwrap();
        Self {
            store,
            url,
            _folder: folder,
        }
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
        let rows = self
            .store
            .read("testing", sql, async |conn: &mut Conn, sql: &Sql| {
                fetch_all!(conn, (String,), *sql)
            });
        rows.await.unwrap().into_iter().map(|row| row.0).collect()
    }

    /// Breaks the data on purpose.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        let done = self.run(statement).await.unwrap();
        assert!(done > 0, "{statement} changed nothing");
    }

    /// Takes the checks and the types from a table, as a person does who repairs rows by hand.
    pub(crate) async fn loosen(&self, table: &'static str) {
        loosen::loosen(&self.store, table).await;
    }

    /// Lets a column be null.
    pub(crate) async fn allow_null(&self, table: &'static str, column: &'static str) {
        loosen::allow_null(&self.store, table, column).await;
    }

    /// Changes the schema.
    pub(crate) async fn alter(&self, statement: &'static str) {
        self.run(statement).await.unwrap();
    }

    /// Runs a statement past the rules of the store.
    pub(crate) async fn run(&self, statement: &'static str) -> Result<u64, Error> {
        self.store
            .write("testing", Sql::both(statement), execute_one)
            .await
    }

    pub(crate) async fn assert_clean(&self) {
        let findings = self.store.audit().await.unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
    }
}

pub(crate) async fn execute_one(tx: &mut Tx, statement: &Sql) -> Result<u64, Error> {
    execute!(tx.conn(), *statement).map_err(doing("testing"))
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
