//! Migrations in a database whose defaults limit every session.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::*;

/// Connects past the limits of the database.
async fn past(db: &TestDb) -> PgConnection {
    let shown = db.url.to_string();
    let url = Postgres::shared().url(shown.rsplit('/').next().unwrap());
    let mut conn = PgConnection::connect(&url).await.unwrap();
    run(&mut conn, "SET statement_timeout = 0; SET lock_timeout = 0").await;
    conn
}

async fn run(conn: &mut PgConnection, statement: &str) {
    let statement = AssertSqlSafe(statement.to_owned());
    sqlx::raw_sql(statement).execute(conn).await.unwrap();
}

/// Waits until another session has waited for a lock for longer than any limit.
async fn another_session_waits(conn: &mut PgConnection) {
    const WAITING: &str = "
        SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND wait_event_type = 'Lock'
           AND clock_timestamp() - query_start > interval '3 seconds'";
    for _ in 0..2000 {
        let row = sqlx::raw_sql(WAITING).fetch_one(&mut *conn).await.unwrap();
        if row.get::<i64, _>(0) > 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no session waits for the lock");
}

/// A migration may take as long as it takes, and as long as what it waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_default_limits_a_migration() {
    let db = TestDb::postgres().await;
    // A transaction sees the activity of its beginning for ever.
    let (mut other, mut looking) = (past(&db).await, past(&db).await);
    run(
        &mut other,
        "DO $$ BEGIN
             EXECUTE format('ALTER DATABASE %I SET statement_timeout = 500', current_database());
             EXECUTE format('ALTER DATABASE %I SET lock_timeout = 500', current_database());
         END $$",
    )
    .await;
    for locked in ["_sqlx_migrations", "dead_letters"] {
        run(
            &mut other,
            "DELETE FROM _sqlx_migrations WHERE version = 20261130000005;
             DROP INDEX IF EXISTS dead_letters_closed;
             DROP INDEX IF EXISTS dead_letters_by_closing;",
        )
        .await;
        let lock = format!("BEGIN; LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE");
        run(&mut other, &lock).await;
        // With connections that are opened under those limits.
        let store = Store::open(&db.url, StoreOptions::default());
        let mut migrating = std::pin::pin!(store.migrate());
        tokio::select! {
            done = &mut migrating => panic!("{locked}: {done:?}"),
            () = another_session_waits(&mut looking) => {}
        }
        run(&mut other, "ROLLBACK").await;
        assert_eq!(migrating.await.unwrap(), 1, "{locked}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_table_of_versions_is_named() {
    let db = TestDb::postgres().await;
    let mut other = past(&db).await;
    let lock = "BEGIN; LOCK TABLE _sqlx_migrations IN ACCESS EXCLUSIVE MODE";
    run(&mut other, lock).await;
    let error = db.store.prepare(false).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("has locked _sqlx_migrations"), "{said}");
}
