//! Rows that couldn't be read are looked at again, each for itself.

use super::*;

async fn create(db: &TestDb, ids: &[&str]) {
    for id in ids {
        let new = new_order(id, 1000, "EUR");
        db.store.create_order(new).await.unwrap();
    }
}

/// Meets rows, readable or not.
async fn meet(db: &TestDb, orders: &[&str], histories: &[&str]) {
    for id in orders {
        let _ = db.store.get_order(id.parse().unwrap()).await;
    }
    for id in histories {
        let page = db.store.history(id.parse().unwrap(), Place::START, 50);
        assert_eq!(page.await.unwrap().unreadable, 1, "{id}");
    }
}

fn unreadable_event(id: &str) -> Error {
    Error::Inconsistent {
        table: "outbox",
        column: "content",
        id: id.to_owned(),
        source: "garbage".into(),
    }
}

on_both! {
    async fn versions_at_both_ends_are_looked_at_again(db) {
        create(db, &["LOW", "HIGH"]).await;
        db.loosen("transitions").await;
        db.tamper("UPDATE transitions SET version = -9223372036854775808 WHERE order_id = 'LOW'").await;
        db.tamper("UPDATE transitions SET version = 9223372036854775807 WHERE order_id = 'HIGH'").await;
        meet(db, &[], &["LOW", "HIGH"]).await;
        for _ in 0..2 {
            db.store.recheck_unreadable().await.unwrap();
            assert_eq!(db.store.unreadable_rows(), 2);
        }
    }

    async fn a_look_that_fails_keeps_no_other_row_from_its_own(db) {
        create(db, &["O1", "O2", "O3"]).await;
        for table in ["orders", "transitions"] {
            db.loosen(table).await;
        }
        db.tamper("UPDATE orders SET status = 'LOST' WHERE order_id IN ('O1', 'O3')").await;
        db.tamper("UPDATE transitions SET source = 'fax' WHERE order_id = 'O2'").await;
        meet(db, &["O1"], &["O2"]).await;
        meet(db, &["O3"], &[]).await;
        assert_eq!(db.store.unreadable_rows(), 3);
        // A history can't be read without its refusals.
        db.alter("ALTER TABLE refusals RENAME TO taken_away").await;
        db.tamper("UPDATE orders SET status = 'NOT_PAID' WHERE order_id IN ('O1', 'O3')").await;
        db.store.recheck_unreadable().await.unwrap_err();
        assert_eq!(db.store.unreadable_rows(), 1);
    }

    async fn a_row_that_is_gone_is_forgotten_at_the_next_look(db) {
        create(db, &["O1", "O2"]).await;
        for table in ["orders", "transitions", "checks"] {
            db.loosen(table).await;
        }
        db.tamper("UPDATE orders SET status = 'LOST' WHERE order_id = 'O1'").await;
        db.tamper("UPDATE transitions SET source = 'fax' WHERE order_id = 'O2'").await;
        meet(db, &["O1"], &["O2"]).await;
        db.store.recheck_unreadable().await.unwrap();
        assert_eq!(db.store.unreadable_rows(), 2);
        db.tamper("DELETE FROM transitions").await;
        db.tamper("DELETE FROM orders WHERE order_id = 'O1'").await;
        db.store.recheck_unreadable().await.unwrap();
        assert_eq!(db.store.unreadable_rows(), 0);
    }

    async fn an_event_that_cannot_be_read_is_remembered_while_it_is_set_aside(db) {
        create(db, &["O1"]).await;
        db.store.note_unreadable(&[unreadable_event("O1/3"), unreadable_event("?")]);
        db.tamper("INSERT INTO outbox_set_aside (name, version, event, kind, why, tried, at, line)
                   SELECT f.name, f.version, 'paid', 'unreadable', 'garbage', 1 = 1, updated_at, 'garbage'
                     FROM (SELECT 'O1' AS name, 3 AS version UNION ALL SELECT '?7.0', 0) AS f, orders").await;
        db.store.recheck_unreadable().await.unwrap();
        assert_eq!(db.store.unreadable_rows(), 2);
        db.tamper("DELETE FROM outbox_set_aside WHERE name = 'O1'").await;
        db.store.recheck_unreadable().await.unwrap();
        assert_eq!(db.store.unreadable_rows(), 1);
        db.tamper("DELETE FROM outbox_set_aside").await;
        db.store.recheck_unreadable().await.unwrap();
        assert_eq!(db.store.unreadable_rows(), 0);
    }
}
