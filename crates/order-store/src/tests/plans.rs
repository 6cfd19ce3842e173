//! SQLite finds rows by a key or an index in everything that is done per payment or per order.

use sqlx::AssertSqlSafe;

use super::*;
use crate::sql;

/// Steps of one statement that read everything, or up to its limit: partial indexes that hold nothing but what is asked
/// for, and names that stand for a table in other statements.
const BOUNDED: &[(&str, &[&str])] = &[
    (
        "dead_letters::COUNT_OPEN",
        &["dead_letters USING COVERING INDEX dead_letters_open"],
    ),
    (
        "exceptions::OLD",
        &[OLD_EXCEPTIONS, OLD_EXCEPTIONS_ASIDE, "unpublished", "aside"],
    ),
    ("migrations::EXIST", &["sqlite_master"]),
    ("migrations::APPLIED", &["_sqlx_migrations"]),
    ("outbox::PAGE", &["page"]),
    (
        "outbox::OLD_ROWS",
        &[
            OLD_STEPS,
            OLD_STEPS_ASIDE,
            OLD_EXCEPTIONS,
            OLD_EXCEPTIONS_ASIDE,
        ],
    ),
    ("outbox::COUNT", &["outbox", "o"]),
    (
        "outbox::COUNT_OLD",
        &[OLD_STEPS, OLD_EXCEPTIONS, "t", "e", "o"],
    ),
    (
        "outbox_set_aside::ANY",
        &["outbox_set_aside USING COVERING INDEX outbox_set_aside_by_kind"],
    ),
    ("outbox_set_aside::COUNT_BLOCKED", &["b", "w", "o"]),
    ("outbox_set_aside::COUNT_OTHERS", &["t", "u"]),
    ("payments::OF_TRANSACTION", &["seen"]),
    ("runs::FAIL", &["runs USING INDEX runs_running"]),
    ("runs::RUNNING", &["runs USING COVERING INDEX runs_running"]),
    (
        "transitions::OLD_ORDERS",
        &[OLD_STEPS, OLD_STEPS_ASIDE, "unpublished", "aside"],
    ),
];

const OLD_STEPS: &str = "transitions USING INDEX transitions_unpublished";
const OLD_STEPS_ASIDE: &str = "transitions USING INDEX transitions_set_aside";
const OLD_EXCEPTIONS: &str = "payment_exceptions USING INDEX payment_exceptions_unpublished";
const OLD_EXCEPTIONS_ASIDE: &str = "payment_exceptions USING INDEX payment_exceptions_set_aside";

/// Parts of a plan that are read whole: a batch, a union, what a page was cut to.
const WHOLE: [&str; 8] = [
    "h",
    "of_order",
    "f",
    "c",
    "looked_at",
    "numbered",
    "CONSTANT ROW",
    "counted",
];

#[tokio::test]
async fn no_payment_and_no_order_is_found_by_a_scan() {
    let db = TestDb::sqlite().await;
    let mut scanning = Vec::new();
    // The audit reads everything, and says so.
    let statements = sql::every().into_iter();
    for (name, statement) in statements.filter(|(name, _)| !name.starts_with("audit::")) {
        let bounded = BOUNDED.iter().find(|(of, _)| *of == name);
        let bounded = bounded.map_or(&[][..], |(_, steps)| steps);
        let plan = db.store.read("explaining", statement, explain);
        let plan = plan.await.unwrap();
        let scans = plan
            .iter()
            .filter_map(|step| step.strip_prefix("SCAN "))
            .filter(|step| !step.contains("json_each") && !step.contains("VIRTUAL TABLE"))
            .filter(|step| !step.starts_with("(subquery"))
            .any(|step| !WHOLE.contains(&step) && !bounded.contains(&step));
        if scans {
            scanning.push(format!("{name}: {plan:#?}"));
        }
    }
    assert!(scanning.is_empty(), "{}", scanning.join("\n"));
}

async fn explain(conn: &mut Conn, statement: &Sql) -> sqlx::Result<Vec<String>> {
    let Conn::Sqlite(c) = conn else {
        panic!("not SQLite")
    };
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.sqlite));
    let steps = sqlx::query_as::<_, (i64, i64, i64, String)>(explain)
        .fetch_all(&mut **c)
        .await?;
    Ok(steps.into_iter().map(|step| step.3).collect())
}
