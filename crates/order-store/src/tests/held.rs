//! A row that can't be read holds back its own order and its own facts; everything else is committed.

use std::sync::Arc;

use order_fsm::{OrderStatus, Verdict};

use super::*;
use crate::{Batch, CreateOutcome, Error, NewDeadLetter, Recorded, Replayed, Scope, WaitingRange};

/// What became of facts: verdicts, or the place of what is wrong.
async fn record_each(db: &TestDb, facts: &[&str]) -> Vec<String> {
    let batch = Batch {
        facts: facts.iter().map(|text| fact(text)).collect(),
        dead_letters: Vec::new(),
    };
    let recorded = db.store.record_each(batch).await.unwrap();
    recorded.iter().map(in_words).collect()
}

fn in_words(recorded: &Recorded) -> String {
    match recorded {
        Ok(verdict) => verdict.to_string(),
        Err(error) => {
            assert_eq!(error.scope(), Scope::Part);
            error.to_string()
        }
    }
}

async fn create(db: &TestDb, id: &str) -> OrderStatus {
    let created = db.store.create_order(new_order(id, 1000, "EUR")).await;
    match created.unwrap() {
        CreateOutcome::Created(order) => order.status,
        other => panic!("{other:?}"),
    }
}

async fn status(db: &TestDb, id: &str) -> OrderStatus {
    let order = db.store.get_order(id.parse().unwrap()).await.unwrap();
    order.unwrap().status
}

/// Pays three orders, one of which is damaged, with the damaged one's payment at every place of the batch; then mends it.
async fn a_damaged_order_holds_back_its_own(
    db: &TestDb,
    damage: &'static str,
    column: &str,
    mend: &'static str,
) {
    db.loosen("orders").await;
    for place in 0..3 {
        let mut orders = vec![format!("A{place}"), format!("C{place}")];
        orders.insert(place, "BAD".to_owned());
        for id in &orders {
            let new = new_order(id, 1000, "EUR");
            db.store.create_order(new).await.unwrap();
        }
        db.tamper(damage).await;
        let facts: Vec<String> = orders
            .iter()
            .map(|id| format!("succeeded {place}-{id} {id} 1000 EUR"))
            .collect();
        let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
        let mut expect = vec!["APPLIED".to_owned(); 2];
        expect.insert(place, format!("inconsistent orders.{column} of \"BAD\""));
        assert_eq!(record_each(db, &facts).await, expect, "{damage}");
        // No row was written for it, and recording it again has the same outcome.
        let left = db.strings(Sql::both(
            "SELECT transaction_id FROM payments WHERE order_id = 'BAD'",
        ));
        assert!(left.await.is_empty());
        let mut again = vec!["DUPLICATE".to_owned(); 2];
        again.insert(place, expect[place].clone());
        assert_eq!(record_each(db, &facts).await, again, "{damage}");
        db.tamper(mend).await;
    }
    // Mended, it is judged like any other, with the payments in the order in which they came.
    let facts = ["0", "1", "2"].map(|place| format!("succeeded {place}-BAD BAD 1000 EUR"));
    let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
    assert_eq!(
        record_each(db, &facts).await,
        ["APPLIED", "SECOND_PAYMENT", "SECOND_PAYMENT"]
    );
    db.assert_clean().await;
}

on_both! {
    async fn an_order_with_an_invalid_currency_holds_back_its_own(db) {
        a_damaged_order_holds_back_its_own(
            db,
            "UPDATE orders SET currency = 'eur' WHERE order_id = 'BAD'",
            "currency",
            "UPDATE orders SET currency = 'EUR' WHERE order_id = 'BAD'",
        ).await;
    }

    async fn an_order_without_a_next_version_holds_back_its_own(db) {
        a_damaged_order_holds_back_its_own(
            db,
            "UPDATE orders SET version = 9223372036854775807 WHERE order_id = 'BAD'",
            "version",
            "UPDATE orders SET version = 1 WHERE order_id = 'BAD'",
        ).await;
    }

    async fn an_order_in_a_status_of_the_future_holds_back_its_own(db) {
        a_damaged_order_holds_back_its_own(
            db,
            "UPDATE orders SET status = 'REFUNDED' WHERE order_id = 'BAD'",
            "status",
            "UPDATE orders SET status = 'NOT_PAID' WHERE order_id = 'BAD'",
        ).await;
    }

    async fn a_payment_that_cannot_be_read_holds_back_what_is_said_about_it(db) {
        for id in ["O1", "O2", "O3"] {
            create(db, id).await;
        }
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        db.loosen("payments").await;
        db.tamper("UPDATE payments SET currency = 'eur' WHERE transaction_id = 'tx1'").await;
        let facts = [
            "succeeded tx1 O1 1000 EUR",
            "succeeded tx2 O2 1000 EUR",
            "succeeded tx1 O1 2000 EUR",
            "succeeded tx3 O3 1000 EUR",
            "succeeded tx1 O1 1000 EUR",
        ];
        let bad = "inconsistent payments.currency of \"acme/tx1/succeeded\"";
        assert_eq!(record_each(db, &facts).await, [bad, "APPLIED", bad, "APPLIED", bad]);
        db.tamper("UPDATE payments SET currency = 'EUR' WHERE transaction_id = 'tx1'").await;
        assert_eq!(
            record_each(db, &facts).await,
            ["DUPLICATE", "DUPLICATE", "CONFLICTING_CONTENT", "DUPLICATE", "DUPLICATE"]
        );
        db.assert_clean().await;
    }

    async fn all_that_is_said_about_an_unreadable_order_is_held_and_letters_are_not(db) {
        create(db, "BAD").await;
        db.loosen("orders").await;
        db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'BAD'").await;
        let batch = Batch {
            facts: [
                "succeeded tx1 BAD 1000 EUR",
                "succeeded tx1 BAD 1000 EUR",
                "succeeded tx2 BAD 1000 EUR",
                "failed tx3 BAD 1000 EUR",
            ].map(fact).to_vec(),
            dead_letters: vec![letter()],
        };
        let recorded = db.store.record_each(batch.clone()).await.unwrap();
        let bad = "inconsistent orders.currency of \"BAD\"";
        // Facts that need no order are recorded nevertheless.
        let words: Vec<String> = recorded.iter().map(in_words).collect();
        assert_eq!(words, [bad, bad, bad, "ATTEMPT_FAILED"]);
        assert_eq!(db.store.list_dead_letters(None, Place::START, 10).await.unwrap().items.len(), 1);
        // A call that records all or nothing records nothing.
        let error = db.store.record_payments(batch).await.unwrap_err();
        assert_eq!(error.to_string(), bad);
        assert!(!error.is_data() && !error.is_transient());
        let payments = db.strings(Sql::both("SELECT transaction_id FROM payments"));
        assert_eq!(payments.await, ["tx3"]);
    }

    async fn a_waiting_payment_that_cannot_be_read_keeps_its_order_waiting_and_no_other(db) {
        record(&db.store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR", "succeeded tx3 O2 1000 EUR"]).await;
        db.loosen("payments").await;
        db.tamper("UPDATE payments SET source = 'telex' WHERE transaction_id = 'tx1'").await;
        assert_eq!(create(db, "O1").await, OrderStatus::NotPaid);
        assert_eq!(create(db, "O2").await, OrderStatus::Paid);
        assert_eq!(db.store.settle_stranded(WaitingRange::ALL, false).await.unwrap(), 0);
        assert_eq!(status(db, "O1").await, OrderStatus::NotPaid);
        assert!(db.store.unreadable_rows() > 0);
        db.tamper("UPDATE payments SET source = 'event' WHERE transaction_id = 'tx1'").await;
        assert_eq!(db.store.settle_stranded(WaitingRange::ALL, false).await.unwrap(), 2);
        let paid = db.store.get_order("O1".parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(paid.paid_by.unwrap().transaction_id.as_str(), "tx1");
        db.assert_clean().await;
    }

    async fn orders_that_cannot_be_read_keep_no_stranded_payment_of_others_waiting(db) {
        for number in 1..=3 {
            create(db, &format!("O{number}")).await;
            record(&db.store, &[&format!("succeeded tx{number} O{number} 1000 EUR")]).await;
        }
        // As if a process had died between the commit and the settling.
        db.tamper("UPDATE payments SET verdict = 'WAITING_FOR_ORDER'").await;
        db.tamper("UPDATE orders SET status = 'NOT_PAID', version = 1, paid_provider = NULL, paid_transaction_id = NULL").await;
        db.tamper("DELETE FROM transitions WHERE version = 2").await;
        db.loosen("orders").await;
        db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'O1'").await;
        // All at once, then one order after the other.
        assert_eq!(db.store.settle_stranded(WaitingRange::ALL, true).await.unwrap(), 2);
        let (mut after, mut settled) = (None, Vec::new());
        loop {
            let range = db.store.waiting_range(after, 1).await.unwrap();
            settled.push(db.store.settle_stranded(range.clone(), false).await.unwrap());
            after = range.until;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(settled, [0, 1, 1, 0]);
        assert_eq!((status(db, "O2").await, status(db, "O3").await), (OrderStatus::Paid, OrderStatus::Paid));
        db.tamper("UPDATE orders SET currency = 'EUR' WHERE order_id = 'O1'").await;
        assert_eq!(db.store.settle_stranded(WaitingRange::ALL, false).await.unwrap(), 1);
        db.assert_clean().await;
    }

    async fn an_order_that_was_set_back_is_no_fault_of_the_message(db) {
        create(db, "BAD").await;
        record(&db.store, &["succeeded tx1 BAD 1000 EUR"]).await;
        db.tamper("UPDATE orders SET status = 'NOT_PAID', version = 1, paid_provider = NULL, paid_transaction_id = NULL").await;
        for facts in [&["succeeded tx2 BAD 1000 EUR"][..], &["succeeded tx2 BAD 1000 EUR", "succeeded tx3 BAD 1000 EUR"]] {
            let batch = Batch { facts: facts.iter().map(|text| fact(text)).collect(), dead_letters: Vec::new() };
            let error = db.store.record_each(batch).await.unwrap_err();
            assert_eq!(error.to_string(), "inconsistent orders.version of \"BAD\"");
            assert_eq!(error.scope(), Scope::Part);
            assert!(!error.is_data());
        }
    }

    async fn a_letter_about_an_unreadable_order_stays_open(db) {
        create(db, "BAD").await;
        let batch = Batch { facts: Vec::new(), dead_letters: vec![letter()] };
        db.store.record_payments(batch).await.unwrap();
        db.loosen("orders").await;
        db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'BAD'").await;
        let replay = || db.store.replay_dead_letter(letter().id(), fact("succeeded tx1 BAD 1000 EUR"), false);
        let error: Error = replay().await.unwrap_err();
        assert_eq!(error.to_string(), "inconsistent orders.currency of \"BAD\"");
        db.tamper("UPDATE orders SET currency = 'EUR' WHERE order_id = 'BAD'").await;
        assert_eq!(replay().await.unwrap(), Replayed::Judged(Verdict::Applied));
        db.assert_clean().await;
    }
}

fn letter() -> NewDeadLetter {
    NewDeadLetter {
        stream: "PAYMENTS".to_owned(),
        subject: "payments.events.acme".to_owned(),
        sequence: 1,
        headers: "{}".to_owned(),
        body: b"{".to_vec(),
        reason: "invalid-json",
        detail: "EOF".to_owned(),
    }
}

/// The update that pays an order gives back its time: it is read first instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_with_an_endless_time_holds_back_its_own_in_postgres() {
    let db = TestDb::postgres().await;
    a_damaged_order_holds_back_its_own(
        &db,
        "UPDATE orders SET updated_at = 'infinity' WHERE order_id = 'BAD'",
        "updated_at",
        "UPDATE orders SET updated_at = created_at WHERE order_id = 'BAD'",
    )
    .await;
}

/// A constraint that came later and that the row doesn't keep: no update of the row is possible.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_no_update_may_touch_holds_back_its_own_in_postgres() {
    let db = TestDb::postgres().await;
    db.loosen("orders").await;
    for id in ["BAD", "O1"] {
        create(&db, id).await;
    }
    db.tamper("UPDATE orders SET pay_by = 'infinity' WHERE order_id = 'BAD'")
        .await;
    db.alter("ALTER TABLE orders ADD CHECK (isfinite(pay_by)) NOT VALID")
        .await;
    let facts = ["succeeded tx1 BAD 1000 EUR", "succeeded tx2 O1 1000 EUR"];
    assert_eq!(
        record_each(&db, &facts).await,
        ["inconsistent orders.pay_by of \"BAD\"", "APPLIED"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_with_a_value_of_another_type_holds_back_its_own_in_sqlite() {
    for (damage, column, mend) in [
        (
            "UPDATE orders SET updated_at = 'soon' WHERE order_id = 'BAD'",
            "updated_at",
            "UPDATE orders SET updated_at = created_at WHERE order_id = 'BAD'",
        ),
        (
            "UPDATE orders SET currency = CAST(x'ff' AS TEXT) WHERE order_id = 'BAD'",
            "currency",
            "UPDATE orders SET currency = 'EUR' WHERE order_id = 'BAD'",
        ),
        (
            "UPDATE orders SET amount = 'much' WHERE order_id = 'BAD'",
            "amount",
            "UPDATE orders SET amount = 1000 WHERE order_id = 'BAD'",
        ),
        (
            "UPDATE orders SET version = x'01' WHERE order_id = 'BAD'",
            "version",
            "UPDATE orders SET version = 1 WHERE order_id = 'BAD'",
        ),
    ] {
        let db = TestDb::sqlite().await;
        a_damaged_order_holds_back_its_own(&db, damage, column, mend).await;
    }
}

/// Two batches that meet the same unreadable order at the same time, and two good ones in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_batches_that_meet_an_unreadable_order_commit_the_rest() {
    let db = Arc::new(TestDb::postgres().await);
    db.loosen("orders").await;
    for number in 0..20 {
        create(&db, &format!("O{number:02}")).await;
    }
    create(&db, "BAD").await;
    db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'BAD'")
        .await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let db = db.clone();
        writers.spawn(async move {
            let facts: Vec<String> = (0..20)
                .map(|number| format!("succeeded tx{number}-{writer} O{number:02} 1000 EUR"))
                .chain([format!("succeeded bad{writer} BAD 1000 EUR")])
                .collect();
            let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
            record_each(&db, &facts).await
        });
    }
    let mut applied = 0;
    while let Some(words) = writers.join_next().await {
        let words = words.unwrap();
        let (bad, good) = words.split_last().unwrap();
        assert_eq!(bad, "inconsistent orders.currency of \"BAD\"");
        applied += good.iter().filter(|word| *word == "APPLIED").count();
        assert!(
            good.iter()
                .all(|word| word == "APPLIED" || word == "SECOND_PAYMENT"),
            "{good:?}"
        );
    }
    assert_eq!(applied, 20);
    db.tamper("UPDATE orders SET currency = 'EUR' WHERE order_id = 'BAD'")
        .await;
    db.assert_clean().await;
}

/// As a forgotten session does that keeps one row locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_stays_locked_holds_back_its_own_in_postgres() {
    use sqlx::Connection as _;

    let db = TestDb::postgres().await;
    for id in ["O1", "O2", "O3"] {
        create(&db, id).await;
    }
    let mut forgotten = sqlx::PgConnection::connect(&db.url.to_string())
        .await
        .unwrap();
    let mut lock = forgotten.begin().await.unwrap();
    sqlx::query("SELECT FROM orders WHERE order_id = 'O2' FOR UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let facts = [
        "succeeded tx1 O1 1000 EUR",
        "succeeded tx2 O2 1000 EUR",
        "succeeded tx3 O2 1000 EUR",
        "succeeded tx4 O3 1000 EUR",
        "succeeded tx5 LATER 1000 EUR",
    ];
    let words = record_each(&db, &facts).await;
    let kept = "the database failed while advancing orders".to_owned();
    assert!(
        words[1] == kept || words[1].contains("locking orders"),
        "{words:?}"
    );
    assert_eq!(words[1], words[2]);
    assert_eq!(
        [&words[0], &words[3], &words[4]],
        ["APPLIED", "APPLIED", "WAITING_FOR_ORDER"]
    );
    lock.rollback().await.unwrap();
    assert_eq!(
        record_each(&db, &facts).await,
        [
            "DUPLICATE",
            "APPLIED",
            "SECOND_PAYMENT",
            "DUPLICATE",
            "DUPLICATE"
        ]
    );
    db.assert_clean().await;
}
