//! How the outbox is read: by its key, whatever the planner believes.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::*;
use crate::sql;

/// The plan of a statement that was prepared while the table was empty, now that it is long and was
/// never analyzed.
async fn generic_plan(
    conn: &mut PgConnection,
    statement: &str,
    types: &str,
    values: &str,
) -> String {
    sqlx::raw_sql("BEGIN; SET LOCAL plan_cache_mode = force_generic_plan")
        .execute(&mut *conn)
        .await
        .unwrap();
    sqlx::raw_sql(sql::outbox::BY_KEY)
        .execute(&mut *conn)
        .await
        .unwrap();
    let prepare = format!("PREPARE looked_at ({types}) AS {statement}");
    sqlx::raw_sql(AssertSqlSafe(prepare))
        .execute(&mut *conn)
        .await
        .unwrap();
    let explain = format!("EXPLAIN EXECUTE looked_at ({values})");
    let plan: Vec<(String,)> = sqlx::query_as(AssertSqlSafe(explain))
        .fetch_all(&mut *conn)
        .await
        .unwrap();
    sqlx::raw_sql("DEALLOCATE looked_at; ROLLBACK")
        .execute(&mut *conn)
        .await
        .unwrap();
    let lines: Vec<String> = plan.into_iter().map(|line| line.0).collect();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_read_and_deleted_by_their_key_in_any_state_of_the_statistics() {
    let db = TestDb::postgres().await;
    let mut conn = PgConnection::connect(&db.url.to_string()).await.unwrap();
    let fill = "INSERT INTO outbox (at, events, content) SELECT now(), 1, 'x' FROM generate_series(1, 20000)";
    for prepare in [
        "TRUNCATE outbox",
        "TRUNCATE outbox; ANALYZE outbox",
        "VACUUM ANALYZE outbox",
    ] {
        sqlx::raw_sql(AssertSqlSafe(prepare))
            .execute(&mut conn)
            .await
            .unwrap();
        for (statement, types, values) in [
            (
                sql::outbox::PAGE.postgres,
                "bigint, bigint, bigint, bigint",
                "0, 9999999, 2000, 2000",
            ),
            (sql::outbox::DELETE.postgres, "bigint[]", "'{1,2,3}'"),
            (
                sql::outbox::KEEP.postgres,
                "bigint, timestamptz, bigint, text",
                "1, now(), 1, 'x'",
            ),
            (sql::outbox::COUNT.postgres, "bigint", "100000"),
            (sql::outbox::FRONT.postgres, "", ""),
        ] {
            let (types, values) = if types.is_empty() {
                ("bigint", "0")
            } else {
                (types, values)
            };
            let plan = generic_plan(&mut conn, statement, types, values).await;
            assert!(plan.contains("outbox_pkey"), "{prepare}: {plan}");
            assert!(!plan.contains("Seq Scan on outbox "), "{prepare}: {plan}");
            assert!(!plan.contains("Sort"), "{prepare}: {plan}");
        }
        sqlx::raw_sql(fill).execute(&mut conn).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_version_left_is_looked_for_by_its_indexes() {
    let db = TestDb::postgres().await;
    let mut conn = PgConnection::connect(&db.url.to_string()).await.unwrap();
    for (statement, types, values) in [
        (sql::outbox::OLD_ROWS.postgres, "bigint", "0"),
        (sql::transitions::OLD_ORDERS.postgres, "bigint", "100"),
        (sql::exceptions::OLD.postgres, "bigint", "100"),
        (sql::outbox::COUNT_OLD.postgres, "bigint", "100"),
    ] {
        let plan = generic_plan(&mut conn, statement, types, values).await;
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}

/// What is published through the outbox costs the history one index, its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_enters_no_index_of_the_older_outbox() {
    let db = TestDb::postgres().await;
    create(&db.store, "O1").await;
    record(
        &db.store,
        &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR"],
    )
    .await;
    let waits = "SELECT CAST(count(*) AS text) FROM transitions
                  WHERE published_at IS NULL OR set_aside IS NOT NULL";
    assert_eq!(db.strings(Sql::both(waits)).await, ["0"]);
    let waits = "SELECT CAST(count(*) AS text) FROM payment_exceptions
                  WHERE published_at IS NULL OR set_aside IS NOT NULL";
    assert_eq!(db.strings(Sql::both(waits)).await, ["0"]);
}
