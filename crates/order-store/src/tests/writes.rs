//! Whether the database takes writes, and which file they go to.

use std::path::PathBuf;

use sqlx::{Connection as _, PgConnection};

use super::*;
use crate::tests::sessions::{admin, database};
use crate::{Error, FileMoved, WriteRefusal};

/// What a role needs, and nothing more.
const GRANTS: &str = "
    GRANT SELECT ON _sqlx_migrations TO $ROLE;
    GRANT SELECT, INSERT, UPDATE ON orders, payments, transitions, pacing, write_probes TO $ROLE;
    GRANT SELECT, INSERT, DELETE ON refusals TO $ROLE;
    GRANT SELECT, INSERT, UPDATE, DELETE
       ON payment_exceptions, dead_letters, checks, leases, runs, idempotency_keys,
          outbox, outbox_progress, outbox_set_aside TO $ROLE;
    GRANT SELECT, INSERT ON run_findings TO $ROLE;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_was_taken_away_is_named() {
    let db = TestDb::postgres().await;
    let role = unique_name("clerk");
    admin(&db, &format!("CREATE ROLE {role} LOGIN")).await;
    admin(&db, &GRANTS.replace("$ROLE", &role)).await;
    let url = db.url.to_string().replace("postgres@", &format!("{role}@"));
    let store = Store::open(&url.parse().unwrap(), StoreOptions::default());
    store.prepare(false).await.unwrap();
    store.try_to_write().await.unwrap();

    admin(
        &db,
        &format!("REVOKE INSERT ON payment_exceptions FROM {role}"),
    )
    .await;
    let error = store.try_to_write().await.unwrap_err();
    assert!(error.is_transient());
    assert_eq!(error.write_refusal(), Some(WriteRefusal::NotPermitted));
    assert!(
        error.to_string().contains("INSERT on payment_exceptions"),
        "{error}"
    );

    admin(
        &db,
        &format!("REVOKE INSERT, UPDATE ON write_probes FROM {role}"),
    )
    .await;
    let error = store.try_to_write().await.unwrap_err();
    assert_eq!(error.write_refusal(), Some(WriteRefusal::NotPermitted));
    store.close().await;
    admin(&db, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// The tables of the service, but for sqlx's own.
async fn tables(conn: &mut PgConnection) -> Vec<String> {
    let tables = sqlx::query_scalar(
        "SELECT tablename::text FROM pg_tables
          WHERE schemaname = 'public' AND tablename <> '_sqlx_migrations'",
    );
    let tables: Vec<String> = tables.fetch_all(conn).await.unwrap();
    assert!(!tables.is_empty());
    tables
}

/// A new table needs its line here: which rights the service needs on it.
#[tokio::test]
async fn the_rights_on_every_table_are_checked() {
    let db = TestDb::postgres().await;
    let mut conn = PgConnection::connect(&Postgres::shared().url(&database(&db)))
        .await
        .unwrap();
    for table in tables(&mut conn).await {
        let is_listed = crate::sql::session::NOT_PERMITTED.contains(&format!("'{table}'"));
        assert!(is_listed, "{table}");
    }
}

/// The locks of readers and writers aren't a reason; locks that keep writers out are, for every table.
#[tokio::test]
async fn a_table_that_another_session_locks_is_named() {
    let db = TestDb::postgres().await;
    let mut conn = PgConnection::connect(&Postgres::shared().url(&database(&db)))
        .await
        .unwrap();
    for table in tables(&mut conn).await {
        for (mode, keeps_out) in [
            ("ROW EXCLUSIVE", false),
            ("SHARE UPDATE EXCLUSIVE", false),
            ("SHARE", true),
            ("ACCESS EXCLUSIVE", true),
        ] {
            let mut held = conn.begin().await.unwrap();
            let lock = format!("LOCK TABLE {table} IN {mode} MODE");
            sqlx::raw_sql(sqlx::AssertSqlSafe(lock))
                .execute(&mut *held)
                .await
                .unwrap();
            let locked = db.store.locked_tables().await.unwrap();
            let expected: &[String] = if keeps_out {
                std::slice::from_ref(&table)
            } else {
                &[]
            };
            assert_eq!(locked, expected, "{table} in {mode} mode");
            held.rollback().await.unwrap();
        }
        assert_eq!(db.store.locked_tables().await.unwrap(), [""; 0]);
    }
}

/// A small write goes through on a disk that has no room for larger ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_counts_until_an_order_was_moved() {
    let db = TestDb::postgres().await;
    admin(
        &db,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER full_disk BEFORE INSERT ON orders EXECUTE FUNCTION full_disk()",
    )
    .await;
    let create = || db.store.create_order(new_order("O1", 1, "EUR"));
    let error = create().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(error.write_refusal(), Some(WriteRefusal::Full));
    let api = db.store.beside(|_| {});
    api.try_to_write().await.unwrap();
    assert_eq!(api.write_refusal(), Some(WriteRefusal::Full));
    let before = api.moves();

    admin(&db, "DROP TRIGGER full_disk ON orders").await;
    create().await.unwrap();
    assert_eq!(api.write_refusal(), None);
    assert_eq!(api.moves(), before + 1);
}

/// Changes a setting of the only writer of a SQLite file.
async fn pragma(db: &TestDb, statement: &'static str) {
    db.alter(statement).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sqlite_file_that_cannot_be_written_says_why() {
    let db = TestDb::sqlite().await;
    db.store.try_to_write().await.unwrap();
    let create = || db.store.create_order(new_order("O1", 1, "EUR"));

    pragma(&db, "PRAGMA query_only = ON").await;
    let error = db.store.try_to_write().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(error.write_refusal(), Some(WriteRefusal::ReadOnly));
    pragma(&db, "PRAGMA query_only = OFF").await;
    db.store.try_to_write().await.unwrap();

    pragma(&db, "PRAGMA max_page_count = 1").await;
    let mut error = None;
    for number in 0..10_000 {
        let order = new_order(&format!("fill-{number}"), 1, "EUR");
        error = db.store.create_order(order).await.err();
        if error.is_some() {
            break;
        }
    }
    let error = error.unwrap();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(error.write_refusal(), Some(WriteRefusal::Full));
    pragma(&db, "PRAGMA max_page_count = 1000000").await;
    create().await.unwrap();
    assert_eq!(db.store.write_refusal(), None);
}

fn moved(done: Result<crate::CreateOutcome, Error>) -> FileMoved {
    let error = done.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    match error {
        Error::FileMoved(moved) => moved,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_into_a_deleted_file() {
    let db = TestDb::sqlite().await;
    let create = |id: &'static str| db.store.create_order(new_order(id, 1, "EUR"));
    create("O1").await.unwrap();
    let path = db.url.sqlite_path().unwrap();
    let aside = path.with_extension("aside");
    std::fs::rename(path, &aside).unwrap();
    assert!(matches!(moved(create("O2").await), FileMoved::Gone { .. }));
    assert!(matches!(
        db.store.get_order("O1".parse().unwrap()).await.unwrap_err(),
        Error::FileMoved(_)
    ));
    // Nor is an empty one made in its place, by a pool that had no connection yet.
    assert!(db.store.beside(|_| {}).ping().await.is_err());
    assert!(!path.exists());

    std::fs::rename(&aside, path).unwrap();
    create("O2").await.unwrap();
    db.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_into_a_deleted_file_is_an_error() {
    let db = TestDb::sqlite().await;
    let path = db.url.sqlite_path().unwrap().clone();
    let done = db
        .store
        .write("testing", path, async |tx: &mut Tx, path: &PathBuf| {
            execute!(tx.conn(), Sql::both("UPDATE leases SET holder = 'x'"))
                .map_err(doing("testing"))?;
            std::fs::remove_file(path).unwrap();
            Ok(())
        });
    let error = done.await.unwrap_err();
    assert!(
        matches!(error, Error::FileMoved(FileMoved::Gone { .. })),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_file_or_another_log_is_not_taken_for_the_one_that_was_opened() {
    for beside in ["", "-wal", "-shm"] {
        let db = TestDb::sqlite().await;
        db.store
            .create_order(new_order("O1", 1, "EUR"))
            .await
            .unwrap();
        let path = format!("{}{beside}", db.url.sqlite_path().unwrap().display());
        let copy = format!("{path}.copy");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::rename(&copy, &path).unwrap();
        let found = moved(db.store.create_order(new_order("O2", 1, "EUR")).await);
        assert!(
            matches!(found, FileMoved::Replaced { .. }),
            "{beside}: {found:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_sqlite_made_anew_is_its_own() {
    let db = TestDb::sqlite().await;
    for round in 0..5 {
        let failed: Result<(), Error> = db
            .store
            .write("testing", (), async |_: &mut Tx, (): &()| {
                panic!("the writer is closed")
            })
            .await;
        assert!(failed.is_err());
        let order = new_order(&format!("O{round}"), 1, "EUR");
        db.store.create_order(order).await.unwrap();
    }
    db.assert_clean().await;
}
