//! Rows that can't be read: each fails for itself and names its place.

use super::*;
use crate::orders::Order;
use crate::rows::{Checked, sort_out};

const ORDERS: Sql = Sql::both(
    "SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
            paid_provider, paid_transaction_id
       FROM orders ORDER BY order_id",
);

/// The readable orders, and what is wrong with the others.
async fn read(db: &TestDb) -> (Vec<String>, Vec<String>) {
    let rows = db
        .store
        .read("testing", (), async |conn: &mut Conn, (): &()| {
            fetch_all!(conn, Checked<Order>, ORDERS)
        });
    let (orders, bad) = sort_out(rows.await.unwrap());
    db.store.note_unreadable(&bad);
    (
        orders
            .iter()
            .map(|order| order.order_id.to_string())
            .collect(),
        bad.iter().map(ToString::to_string).collect(),
    )
}

on_both! {
    async fn a_damaged_row_fails_for_itself_and_names_its_place(db) {
        for id in ["O1", "O2", "O3"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        db.loosen("orders").await;
        for (damage, column) in [
            ("UPDATE orders SET currency = 'eur' WHERE order_id = 'O2'", "currency"),
            ("UPDATE orders SET status = 'REFUNDED' WHERE order_id = 'O2'", "status"),
            ("UPDATE orders SET amount = -1 WHERE order_id = 'O2'", "amount"),
            ("UPDATE orders SET version = 0 WHERE order_id = 'O2'", "version"),
            ("UPDATE orders SET paid_provider = 'acme' WHERE order_id = 'O2'", "paid_transaction_id"),
        ] {
            db.tamper(damage).await;
            let (readable, bad) = read(db).await;
            assert_eq!(readable, ["O1", "O3"], "{damage}");
            assert_eq!(bad, [format!("inconsistent orders.{column} of \"O2\"")], "{damage}");
            db.tamper("UPDATE orders SET currency = 'EUR', status = 'NOT_PAID', amount = 1000,
                              version = 1, paid_provider = NULL WHERE order_id = 'O2'").await;
        }
        assert_eq!(read(db).await.0.len(), 3);
        assert_eq!(db.store.unreadable_rows(), 1, "one row, whatever is wrong with it");
    }
}

#[tokio::test]
async fn times_that_only_postgres_knows_are_unreadable_and_nothing_panics() {
    let db = TestDb::postgres().await;
    for id in ["O1", "O2"] {
        db.store
            .create_order(new_order(id, 1000, "EUR"))
            .await
            .unwrap();
    }
    db.loosen("orders").await;
    for damage in [
        "UPDATE orders SET updated_at = 'infinity' WHERE order_id = 'O2'",
        "UPDATE orders SET updated_at = '-infinity' WHERE order_id = 'O2'",
        "UPDATE orders SET updated_at = '294276-12-31 23:59:59.999999Z' WHERE order_id = 'O2'",
        "UPDATE orders SET updated_at = '10000-01-01 00:00:00Z' WHERE order_id = 'O2'",
        "UPDATE orders SET updated_at = '4713-01-01 00:00:00Z BC' WHERE order_id = 'O2'",
        "UPDATE orders SET updated_at = '0001-12-31 23:59:59Z BC' WHERE order_id = 'O2'",
    ] {
        db.tamper(damage).await;
        let (readable, bad) = read(&db).await;
        if damage.contains("0001") {
            // The year 0, which RFC 3339 has.
            assert_eq!(readable, ["O1", "O2"], "{damage}");
        } else {
            assert_eq!(readable, ["O1"], "{damage}");
            assert_eq!(
                bad,
                ["inconsistent orders.updated_at of \"O2\""],
                "{damage}"
            );
        }
    }
}

#[tokio::test]
async fn values_of_another_type_are_unreadable_in_sqlite() {
    let db = TestDb::sqlite().await;
    for id in ["O1", "O2", "O3"] {
        db.store
            .create_order(new_order(id, 1000, "EUR"))
            .await
            .unwrap();
    }
    db.loosen("orders").await;
    for (damage, expect) in [
        (
            "UPDATE orders SET amount = 'many' WHERE order_id = 'O2'",
            "amount of \"O2\"",
        ),
        (
            "UPDATE orders SET pay_by = 9223372036854775807 WHERE order_id = 'O2'",
            "pay_by of \"O2\"",
        ),
        (
            "UPDATE orders SET pay_by = 1.5 WHERE order_id = 'O2'",
            "pay_by of \"O2\"",
        ),
        (
            "UPDATE orders SET currency = x'ff' WHERE order_id = 'O2'",
            "currency of \"O2\"",
        ),
        (
            "UPDATE orders SET currency = CAST(x'ff' AS TEXT) WHERE order_id = 'O2'",
            "currency of \"O2\"",
        ),
        (
            "UPDATE orders SET order_id = CAST(x'4f32ff' AS TEXT) WHERE order_id = 'O2'",
            "order_id of \"O2\u{fffd}\"",
        ),
    ] {
        db.tamper(damage).await;
        let (readable, bad) = read(&db).await;
        assert_eq!(readable, ["O1", "O3"], "{damage}");
        assert_eq!(bad, [format!("inconsistent orders.{expect}")], "{damage}");
        if !damage.contains("order_id =  CAST") {
            db.tamper(
                "UPDATE orders SET amount = 1000, currency = 'EUR', pay_by = created_at WHERE true",
            )
            .await;
        }
    }
}
