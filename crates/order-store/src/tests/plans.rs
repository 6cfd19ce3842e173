//! SQLite finds rows by a key or an index in everything that is done per payment or per order.

use sqlx::AssertSqlSafe;

use super::*;
use crate::conn::Conn;
use crate::sql;

#[tokio::test]
async fn no_payment_and_no_order_is_found_by_a_scan() {
    let db = TestDb::sqlite().await;
    let statements = [
        ("ORDER_GET", sql::ORDER_GET),
        ("ORDERS_LOCK", sql::ORDERS_LOCK),
        ("ORDERS_PAY", sql::ORDERS_PAY),
        ("ORDER_ADVANCE", sql::ORDER_ADVANCE),
        ("PAYMENTS_KNOWN", sql::PAYMENTS_KNOWN),
        ("PAYMENTS_JUDGE", sql::PAYMENTS_JUDGE),
        ("PAYMENTS_WAITING", sql::PAYMENTS_WAITING),
        ("ORDERS_STRANDED", sql::ORDERS_STRANDED),
        ("PAYMENTS_OF_ORDER", sql::PAYMENTS_OF_ORDER),
        ("HISTORY", sql::HISTORY),
        ("EXCEPTIONS_CLOSED", sql::EXCEPTIONS_CLOSED),
        ("EXCEPTIONS_SETTLE", sql::EXCEPTIONS_SETTLE),
        ("PAYMENT_LOCK", sql::ops::PAYMENT_LOCK),
        ("EXCEPTION_LOCK", sql::ops::EXCEPTION_LOCK),
        ("ORDER_ACCEPT", sql::ops::ORDER_ACCEPT),
        ("DEAD_LETTER_LOCK", sql::ops::DEAD_LETTER_LOCK),
        ("DUE", sql::reconcile::DUE),
        ("CHECKS_MOVE", sql::reconcile::CHECKS_MOVE),
        ("CHECKS_END", sql::reconcile::CHECKS_END),
        ("CANCEL_GUARDS", sql::reconcile::CANCEL_GUARDS),
        ("ORDERS_CANCEL", sql::reconcile::ORDERS_CANCEL),
        ("TOLD_AGAIN", sql::reconcile::TOLD_AGAIN),
        ("PAYMENTS_OVERDUE", sql::reconcile::PAYMENTS_OVERDUE),
        ("ORDERS_LIST", sql::orders::ORDERS_LIST),
        ("ORDERS_IN_STATUS", sql::orders::ORDERS_IN_STATUS),
        ("ORDER_VERSIONS", sql::orders::ORDER_VERSIONS),
        ("KEY_LOCK", sql::idempotency::KEY_LOCK),
        ("KEY_TAKE", sql::idempotency::KEY_TAKE),
        ("KEY_ANSWER", sql::idempotency::KEY_ANSWER),
        ("KEY_RELEASE", sql::idempotency::KEY_RELEASE),
        ("KEYS_PURGE", sql::idempotency::KEYS_PURGE),
    ];
    for (name, statement) in statements {
        let plan = db.store.read(move |conn| {
            Box::pin(async move {
                let Conn::Sqlite(c) = conn else {
                    panic!("not SQLite")
                };
                let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.sqlite));
                sqlx::query_as::<_, (i64, i64, i64, String)>(explain)
                    .fetch_all(&mut **c)
                    .await
                    .map_err(doing("explaining"))
            })
        });
        let plan: Vec<String> = plan.await.unwrap().into_iter().map(|row| row.3).collect();
        // Batches come in as json_each, unions as sub-queries: those are read whole.
        let scans: Vec<&String> = plan
            .iter()
            .filter(|step| step.starts_with("SCAN"))
            .filter(|step| !step.contains("json_each") && !step.contains("VIRTUAL TABLE"))
            .filter(|step| !step.starts_with("SCAN (subquery"))
            .filter(|step| {
                ![
                    "SCAN h",
                    "SCAN of_order",
                    "SCAN f",
                    "SCAN c",
                    "SCAN looked_at",
                    "SCAN numbered",
                    "SCAN CONSTANT ROW",
                ]
                .contains(&step.as_str())
            })
            .collect();
        assert!(scans.is_empty(), "{name}: {plan:#?}");
    }
}
