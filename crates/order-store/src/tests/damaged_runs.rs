//! Reconciliation goes on past rows that can't be read.

use std::time::Duration;

use order_fsm::OrderStatus;

use super::*;
use crate::{DueCursor, LetterState, NewDeadLetter, RecordedAnswer, Step, Stepped, WaitingRange};

const MINUTE: Duration = Duration::from_mins(1);

/// The due orders that can be read, and those that can't, page by page.
async fn due(store: &Store, until: OffsetDateTime, limit: u32) -> (Vec<String>, Vec<String>) {
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    let mut from = Some(Place::<DueCursor>::START);
    while let Some(at) = from {
        let page = store.due_orders(at, until, limit).await.unwrap();
        readable.extend(page.orders.iter().map(|order| order.order_id.to_string()));
        unreadable.extend(
            page.unreadable
                .iter()
                .map(|order| order.order_id.to_string()),
        );
        from = page.next;
        assert!(
            readable.len() + unreadable.len() < 50,
            "it goes round in circles"
        );
    }
    (readable, unreadable)
}

async fn status(store: &Store, id: &str) -> OrderStatus {
    let order = store.get_order(id.parse().unwrap()).await.unwrap();
    order.unwrap().status
}

on_both! {
    async fn due_orders_go_on(db) {
        for n in 1..=7 {
            let store = db.at(NOW + n * MINUTE);
            store.create_order(new_order(&format!("O{n}"), 1000, "EUR")).await.unwrap();
        }
        for table in ["orders", "checks", "transitions"] {
            db.loosen(table).await;
        }
        record(&db.store, &["succeeded tx6 O6 1000 EUR"]).await;
        db.tamper("UPDATE orders SET status = 'LOST' WHERE order_id = 'O1'").await;
        // The order is missing, as after a deletion by hand.
        db.tamper("DELETE FROM orders WHERE order_id = 'O2'").await;
        // No key by which it could be put off.
        db.tamper("UPDATE checks SET order_id = '?!' WHERE order_id = 'O4'").await;
        // An invalid value that no decision depends on.
        db.tamper("UPDATE checks SET pause_ms = 9223372036854775807, unknowns = 9223372036854775807
                    WHERE order_id = 'O5'").await;
        let until = NOW + 30 * MINUTE;
        for limit in [1, 2, 3, 7, 50] {
            let (readable, unreadable) = due(&db.store, until, limit).await;
            assert_eq!(readable, ["O3", "O5", "O6", "O7"], "{limit}");
            assert_eq!(unreadable, ["O1", "O2"], "{limit}");
        }
        assert_eq!(db.store.unreadable_rows(), 3);

        // Put off, each time for longer; a dry run changes nothing.
        let late = db.at(until);
        for dry_run in [true, false] {
            let page = late.due_orders(Place::START, until, 50).await.unwrap();
            late.put_off(page.unreadable, dry_run).await.unwrap();
        }
        assert_eq!(due(&late, until, 50).await.1, Vec::<String>::new());
        assert_eq!(due(&late, until + 9 * MINUTE, 50).await.1, Vec::<String>::new());
        assert_eq!(due(&late, until + 10 * MINUTE, 50).await.1, ["O1", "O2"]);

        // An invalid value doesn't panic and is corrected.
        let page = late.due_orders(Place::START, until, 50).await.unwrap();
        let steps = page.orders.into_iter().map(|order| (order, Step::Asked { unknown: true }));
        late.step_due_orders(steps.collect(), false).await.unwrap();
        let mut again = due(&late, until + 60 * MINUTE, 50).await.0;
        again.sort();
        assert_eq!(again, ["O3", "O5", "O6", "O7"]);
    }

    async fn an_order_that_cannot_be_read_keeps_no_other_from_being_cancelled(db) {
        for id in ["O1", "O2", "O3"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        db.loosen("orders").await;
        db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'O2'").await;
        let until = NOW + 40 * MINUTE;
        let late = db.at(until);
        let page = late.due_orders(Place::START, until, 10).await.unwrap();
        let for_good = || Step::Cancel { reason: "unpaid, final".to_owned() };
        let steps = page.orders.into_iter().map(|order| (order, for_good())).collect();
        assert_eq!(
            late.step_due_orders(steps, false).await.unwrap(),
            [Stepped::Cancelled, Stepped::Unreadable, Stepped::Cancelled]
        );
        assert_eq!(status(&late, "O3").await, OrderStatus::Cancelled);
        // Like an order that nothing is known about.
        assert_eq!(due(&late, until + 9 * MINUTE, 10).await.0, Vec::<String>::new());
        let later = late.due_orders(Place::START, until + 10 * MINUTE, 10).await.unwrap();
        assert_eq!(later.orders[0].unknowns(), 1);
    }

    async fn an_answer_about_a_damaged_order_keeps_no_other_from_being_recorded(db) {
        for id in ["O1", "O2", "O3"] {
            db.store.create_order(new_order(id, 1000, "EUR")).await.unwrap();
        }
        record(&db.store, &["succeeded tx3 O3 1000 EUR"]).await;
        db.loosen("orders").await;
        db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'O2'").await;
        db.tamper("UPDATE orders SET status = 'LOST' WHERE order_id = 'O3'").await;
        for dry_run in [true, false] {
            let facts = ["succeeded tx1 O1 1000 EUR", "succeeded tx2 O2 1000 EUR", "succeeded tx3 O3 1000 EUR"];
            let facts = facts.map(fact).to_vec();
            assert_eq!(
                db.store.record_answers(facts, dry_run).await.unwrap(),
                [RecordedAnswer::New(Verdict::Applied), RecordedAnswer::Unreadable, RecordedAnswer::Duplicate],
                "{dry_run}"
            );
        }
        assert_eq!(status(&db.store, "O1").await, OrderStatus::Paid);
    }

    async fn unreadable_waiting_payments_keep_no_others_from_becoming_exceptions(db) {
        for n in 1..=5 {
            record(&db.store, &[&format!("succeeded tx{n} W{n} 1000 EUR")]).await;
        }
        db.loosen("payments").await;
        db.tamper("UPDATE payments SET currency = 'eur' WHERE transaction_id IN ('tx1', 'tx2')").await;
        db.tamper("UPDATE payments SET provider = 'ACME' WHERE transaction_id = 'tx3'").await;
        let wait = Duration::from_hours(24);
        let later = db.at(NOW + wait);
        assert_eq!(later.open_overdue(wait, WaitingRange::ALL, true).await.unwrap(), 2);
        let (mut opened, mut after) = (0, None);
        loop {
            let range = later.waiting_range(after, 1).await.unwrap();
            opened += later.open_overdue(wait, range.clone(), false).await.unwrap();
            after = range.until;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(opened, 2);
        assert_eq!(db.exceptions().await, ["WAITING_FOR_ORDER tx4 W4 1000 EUR open", "WAITING_FOR_ORDER tx5 W5 1000 EUR open"]);
        assert_eq!(later.open_overdue(wait, WaitingRange::ALL, false).await.unwrap(), 0);
        assert_eq!(db.store.unreadable_rows(), 3);
    }

    async fn each_kind_of_old_rows_is_forgotten_for_itself(db) {
        let letter = NewDeadLetter {
            stream: "PAYMENTS".to_owned(),
            subject: "payments.events.acme".to_owned(),
            sequence: 1,
            headers: "{}".to_owned(),
            body: vec![1],
            reason: "invalid-json",
            detail: String::new(),
        };
        let id = letter.id();
        let batch = crate::Batch { facts: Vec::new(), dead_letters: vec![letter] };
        db.store.record_payments(batch).await.unwrap();
        db.store.discard_dead_letter(id.clone(), "junk".to_owned()).await.unwrap();
        db.store.start_run("r1".to_owned(), crate::StartedBy::Cli, false, MINUTE).await.unwrap();
        let ended = db.store.end_run("r1".to_owned(), crate::RunState::Done, crate::RunCounts::default(), Vec::new());
        assert!(ended.await.unwrap());
        // Neither the first nor the last kind.
        db.alter("ALTER TABLE refusals RENAME TO taken_away").await;
        let later = db.at(NOW + Duration::from_hours(25));
        later.purge(Duration::from_hours(24), 100).await.unwrap_err();
        assert!(later.get_run("r1".to_owned()).await.unwrap().is_none());
        let letters = later.list_dead_letters(Some(LetterState::Discarded), Place::START, 10).await.unwrap();
        assert!(letters.items.is_empty());
    }
}

/// One row keeps the pace of all questions.
#[tokio::test]
async fn a_damaged_pace_does_not_stop_the_questions() {
    let db = TestDb::postgres().await;
    let ask = async |store: Store| {
        store
            .reserve_question(Duration::ZERO, Duration::ZERO)
            .await
            .unwrap()
    };
    assert_eq!(
        ask(db.store.clone()).await,
        crate::Slot::After(Duration::ZERO)
    );
    db.tamper("UPDATE pacing SET next_at = 'infinity'").await;
    assert_eq!(
        ask(db.store.clone()).await,
        crate::Slot::After(Duration::ZERO)
    );
    db.tamper("UPDATE pacing SET not_before = 'infinity'").await;
    // The service may have named it: an hour at most.
    assert!(matches!(
        ask(db.store.clone()).await,
        crate::Slot::Closed(_)
    ));
    let later = db.at(NOW + Duration::from_hours(1));
    assert_eq!(ask(later).await, crate::Slot::After(Duration::ZERO));
}

/// SQLite keeps any bytes as text: a key that can't even be written down is passed like any other.
#[tokio::test]
async fn a_waiting_payment_whose_key_is_not_text_stops_no_walk() {
    let db = TestDb::sqlite().await;
    for n in 1..=4 {
        record(&db.store, &[&format!("succeeded tx{n} W{n} 1000 EUR")]).await;
    }
    db.loosen("payments").await;
    // Behind `acme` of the first, before `adyen` of the last.
    for damage in [
        "UPDATE payments SET provider = CAST(X'6163FF' AS text) WHERE transaction_id = 'tx2'",
        "UPDATE payments SET provider = CAST(X'6163FFFF' AS text) WHERE transaction_id = 'tx3'",
        "UPDATE payments SET provider = 'adyen' WHERE transaction_id = 'tx4'",
    ] {
        db.tamper(damage).await;
    }
    let wait = Duration::from_hours(24);
    let later = db.at(NOW + wait);
    let (mut opened, mut after) = (0, None);
    for _ in 0..10 {
        let range = later.waiting_range(after, 1).await.unwrap();
        opened += later
            .open_overdue(wait, range.clone(), false)
            .await
            .unwrap();
        after = range.until;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((opened, after), (2, None));
    assert_eq!(
        db.exceptions().await,
        [
            "WAITING_FOR_ORDER tx1 W1 1000 EUR open",
            "WAITING_FOR_ORDER tx4 W4 1000 EUR open"
        ]
    );
}
