//! Money that a person refunded or wrote off no longer prevents a cancellation.

use std::time::Duration;

use order_fsm::{OrderEvent, OrderStatus, Verdict};

use super::*;
use crate::{
    Closed, Closing, ExceptionFilter, Operated, Operation, RecordedAnswer, Resolution, Step,
    Stepped,
};

/// An order of 10.00 EUR.
async fn create(db: &TestDb, id: &str) {
    let new = new_order(id, 1000, "EUR");
    db.store.create_order(new).await.unwrap();
}

/// Closes the only exception of an order.
async fn close(db: &TestDb, order_id: &str, resolution: Resolution) -> Closed {
    let filter = ExceptionFilter {
        order_id: Some(order_id.parse().unwrap()),
        ..ExceptionFilter::default()
    };
    let found = db.store.list_exceptions(filter, Place::START, 10).await;
    let found = found.unwrap().items;
    assert_eq!(found.len(), 1, "{found:?}");
    let closing = Closing {
        id: found[0].id.clone(),
        resolution,
        note: "talked to the customer".to_owned(),
        actor: "ann".to_owned(),
        refused_as: "illegal-transition",
    };
    db.store.close_exception(closing).await.unwrap()
}

/// What becomes of a payment that is reported again.
async fn again(db: &TestDb, payment: &str) -> RecordedAnswer {
    let recorded = db.store.record_answers(vec![fact(payment)], false).await;
    recorded.unwrap()[0]
}

async fn cancelled(db: &TestDb, id: &str) -> Operated {
    let operation = Operation {
        order_id: id.parse().unwrap(),
        event: OrderEvent::Cancel,
        source: Source::Api,
        actor: "ann".to_owned(),
        reason: None,
        if_version: None,
        refused_as: REFUSED_AS,
    };
    db.store.operate(operation).await.unwrap()
}

on_both! {
    async fn a_payment_that_a_person_closed_is_given_up(db) {
        for (id, resolution) in [("O1", Resolution::Refunded), ("O2", Resolution::WrittenOff)] {
            create(db, id).await;
            let payment = format!("succeeded tx-{id} {id} 999 EUR");
            assert_eq!(again(db, &payment).await, RecordedAnswer::New(Verdict::AmountMismatch));
            // Open: a person still has to look at it.
            let known = RecordedAnswer::Known(Verdict::AmountMismatch, OrderStatus::NotPaid);
            assert_eq!(again(db, &payment).await, known);
            assert!(matches!(cancelled(db, id).await, Operated::MoneyHeld(_)));
            assert_eq!(close(db, id, resolution).await, Closed::Closed);
            assert_eq!(again(db, &payment).await, RecordedAnswer::GivenUp(Verdict::AmountMismatch));
            // Another payment of that order, and that payment with other content, are another matter.
            let other = format!("succeeded other-{id} {id} 999 EUR");
            assert_eq!(again(db, &other).await, RecordedAnswer::New(Verdict::AmountMismatch));
            let changed = format!("succeeded tx-{id} {id} 998 EUR");
            assert_eq!(again(db, &changed).await, RecordedAnswer::Conflict(Verdict::ConflictingContent));
            assert_eq!(again(db, &payment).await, RecordedAnswer::GivenUp(Verdict::AmountMismatch));
            assert!(matches!(cancelled(db, id).await, Operated::MoneyHeld(_)));
        }
        db.assert_clean().await;
    }

    async fn an_accepted_payment_is_not_given_up(db) {
        create(db, "O1").await;
        record(&db.store, &["succeeded tx1 O1 999 EUR"]).await;
        assert_eq!(close(db, "O1", Resolution::Accepted).await, Closed::Closed);
        let known = RecordedAnswer::Known(Verdict::Applied, OrderStatus::Paid);
        assert_eq!(again(db, "succeeded tx1 O1 999 EUR").await, known);
        // One that only closes, after its order left.
        create(db, "O2").await;
        cancelled(db, "O2").await;
        record(&db.store, &["succeeded tx2 O2 1000 EUR"]).await;
        assert_eq!(close(db, "O2", Resolution::Accepted).await, Closed::Closed);
        let known = RecordedAnswer::Known(Verdict::PaidAfterCancel, OrderStatus::Cancelled);
        assert_eq!(again(db, "succeeded tx2 O2 1000 EUR").await, known);
        db.assert_clean().await;
    }

    async fn a_waiting_payment_that_a_person_closed_holds_no_order(db) {
        let wait = Duration::from_hours(24);
        let later = db.at(NOW + wait);
        for (id, resolution) in [("O1", Resolution::Refunded), ("O2", Resolution::WrittenOff)] {
            record(&db.store, &[&format!("succeeded tx-{id} {id} 1000 EUR")]).await;
            assert_eq!(later.open_overdue(wait, crate::WaitingRange::ALL, false).await.unwrap(), 1);
            assert_eq!(close(db, id, resolution).await, Closed::Closed);
            create(db, id).await;
            let payment = format!("succeeded tx-{id} {id} 1000 EUR");
            assert_eq!(again(db, &payment).await, RecordedAnswer::GivenUp(Verdict::WaitingForOrder));
        }
        assert!(matches!(cancelled(db, "O1").await, Operated::Applied(_)));
        let at = NOW + Duration::from_mins(40);
        let due = db.at(at).due_orders(Place::START, at, 10).await.unwrap().orders;
        let due = due.into_iter().find(|order| order.order_id.as_str() == "O2").unwrap();
        let step = Step::Cancel { reason: "unpaid, final".to_owned() };
        let stepped = db.at(at).step_due_orders(vec![(due, step)], false).await.unwrap();
        assert_eq!(stepped, [Stepped::Cancelled]);
        db.assert_clean().await;
    }
}
