//! What people do: operations with conditions, exceptions closed, dead letters replayed.

use order_fsm::Verdict::{
    AmountMismatch, Applied, Duplicate, Reversed, SecondPayment, WaitingForOrder,
};
use order_fsm::{OrderEvent, OrderStatus, Verdict};
use time::Duration;

use super::*;
use crate::{
    Batch, Closed, Closing, Discarded, LetterState, NewDeadLetter, Operated, Operation, Replayed,
    Resolution, exception_id,
};

async fn create(store: &Store, id: &str) {
    store
        .create_order(new_order(id, 1000, "EUR"))
        .await
        .unwrap();
}

fn operation(id: &str, event: OrderEvent, if_version: Option<Vec<i64>>) -> Operation {
    Operation {
        order_id: id.parse().unwrap(),
        event,
        source: Source::Api,
        actor: "ann".to_owned(),
        reason: Some("because".to_owned()),
        if_version,
        refused_as: REFUSED_AS,
    }
}

async fn close(
    store: &Store,
    text: &str,
    verdict: Verdict,
    resolution: Resolution,
    note: &str,
) -> Closed {
    let told = fact(text);
    let closing = Closing {
        id: exception_id(verdict, &told.key, &told.content),
        resolution,
        note: note.to_owned(),
        actor: "ann".to_owned(),
        refused_as: "illegal-transition",
    };
    store.close_exception(closing).await.unwrap()
}

/// A history as `version event outcome actor reason`.
async fn history(store: &Store, id: &str) -> Vec<String> {
    let items = store
        .history(id.parse().unwrap(), Place::START, 100)
        .await
        .unwrap()
        .items;
    items
        .into_iter()
        .map(|i| {
            format!(
                "{} {} {:?} {} {}",
                i.version,
                i.event,
                i.outcome,
                i.actor,
                i.reason.unwrap_or_default()
            )
        })
        .collect()
}

async fn status(store: &Store, id: &str) -> (OrderStatus, i64) {
    let order = store.get_order(id.parse().unwrap()).await.unwrap().unwrap();
    (order.status, order.version)
}

async fn keep(store: &Store, body: &[u8]) -> String {
    let letter = NewDeadLetter {
        stream: "PAYMENTS".to_owned(),
        subject: "payments.events.acme".to_owned(),
        sequence: 1,
        headers: "{}".to_owned(),
        body: body.to_vec(),
        reason: "invalid-json",
        detail: String::new(),
    };
    let id = letter.id();
    let batch = Batch {
        facts: Vec::new(),
        dead_letters: vec![letter],
    };
    store.record_payments(batch).await.unwrap();
    id
}

on_both! {
    async fn the_expected_version_is_asked_before_everything_else(db) {
        create(&db.store, "O1").await;
        let other = db.store.operate(operation("O1", OrderEvent::Cancel, Some(vec![2, 3]))).await.unwrap();
        assert!(matches!(other, Operated::OtherVersion(order) if order.version == 1));
        let applied = db.store.operate(operation("O1", OrderEvent::Cancel, Some(vec![7, 1]))).await.unwrap();
        assert!(matches!(applied, Operated::Applied(_)));
        let again = db.store.operate(operation("O1", OrderEvent::Cancel, Some(vec![1]))).await.unwrap();
        assert!(matches!(again, Operated::OtherVersion(_)));
        assert_eq!(history(&db.store, "O1").await, ["1 create Applied shop ", "2 cancel Applied ann because"]);
        db.assert_clean().await;
    }

    async fn a_refused_operation_is_in_the_history_once(db) {
        create(&db.store, "O1").await;
        for _ in 0..3 {
            let refused = db.store.operate(operation("O1", OrderEvent::Ship, None)).await.unwrap();
            assert!(matches!(refused, Operated::Refused(..)));
        }
        record(&db.store, &["succeeded tx1 O1 7 EUR"]).await;
        let held = db.store.operate(operation("O1", OrderEvent::Cancel, None)).await.unwrap();
        assert!(matches!(held, Operated::MoneyHeld(_)));
        assert_eq!(history(&db.store, "O1").await, [
            "1 create Applied shop ",
            "1 cancel Refused ann payment-recorded",
            "1 pay Refused orderd AMOUNT_MISMATCH",
            "1 ship Refused ann illegal-transition",
        ]);
        db.assert_clean().await;
    }

    async fn an_accepted_mismatch_pays_its_order(db) {
        create(&db.store, "O1").await;
        let (one, two) = ("succeeded tx1 O1 1001 EUR", "succeeded tx2 O1 1000 USD");
        record(&db.store, &[one, two]).await;
        let accepted = Resolution::Accepted;
        assert_eq!(close(&db.store, one, AmountMismatch, accepted, "fine").await, Closed::Closed);
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Paid, 2));
        assert_eq!(close(&db.store, one, AmountMismatch, accepted, "fine").await, Closed::AlreadyThere);
        assert_eq!(close(&db.store, one, AmountMismatch, accepted, "other").await, Closed::ClosedOtherwise);
        assert_eq!(close(&db.store, one, AmountMismatch, Resolution::Refunded, "fine").await, Closed::ClosedOtherwise);
        let moved = close(&db.store, two, Verdict::CurrencyMismatch, accepted, "fine").await;
        assert!(matches!(moved, Closed::OrderMoved(order) if order.paid_by.as_ref().unwrap().transaction_id.as_str() == "tx1"));
        assert_eq!(db.exceptions().await, ["AMOUNT_MISMATCH tx1 O1 1001 EUR closed", "CURRENCY_MISMATCH tx2 O1 1000 USD open"]);
        assert_eq!(history(&db.store, "O1").await, [
            "1 create Applied shop ", "1 pay Refused orderd AMOUNT_MISMATCH",
            "1 pay Refused orderd CURRENCY_MISMATCH", "2 pay Applied ann fine",
            "2 pay Refused ann illegal-transition",
        ]);
        assert_eq!(record(&db.store, &[one, two]).await, [Duplicate, Duplicate]);
        db.assert_clean().await;
    }

    async fn only_what_can_be_accepted_is_accepted(db) {
        create(&db.store, "O1").await;
        let (second, conflict) = ("succeeded tx2 O1 1000 EUR", "succeeded tx1 O1 5 EUR");
        record(&db.store, &["succeeded tx1 O1 1000 EUR", second, conflict]).await;
        let accepted = Resolution::Accepted;
        assert_eq!(close(&db.store, second, SecondPayment, accepted, "kept").await, Closed::Closed);
        let refused = close(&db.store, conflict, Verdict::ConflictingContent, accepted, "x").await;
        assert_eq!(refused, Closed::NotAcceptable(Verdict::ConflictingContent));
        assert_eq!(close(&db.store, conflict, Verdict::ConflictingContent, Resolution::WrittenOff, "x").await, Closed::Closed);
        assert_eq!(close(&db.store, "succeeded unknown O1 1 EUR", SecondPayment, accepted, "x").await, Closed::Missing);
        // No delivery opens it again.
        assert_eq!(record(&db.store, &[conflict]).await, [Verdict::ConflictingContent]);
        assert_eq!(db.exceptions().await, ["CONFLICTING_CONTENT tx1 O1 5 EUR closed", "SECOND_PAYMENT tx2 O1 1000 EUR closed"]);
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Paid, 2));
        db.assert_clean().await;
    }

    async fn two_people_who_accept_two_mismatches_at_once_pay_once(db) {
        for round in 0..20 {
            let id = format!("O{round}");
            create(&db.store, &id).await;
            let (one, two) = (format!("succeeded a{round} {id} 1 EUR"), format!("succeeded b{round} {id} 2 EUR"));
            record(&db.store, &[&one, &two]).await;
            let accept = async |text: &str| close(&db.store, text, AmountMismatch, Resolution::Accepted, "x").await;
            let (first, second) = tokio::join!(accept(&one), accept(&two));
            let closed = [&first, &second].iter().filter(|c| ***c == Closed::Closed).count();
            assert_eq!(closed, 1, "{first:?} {second:?}");
            assert_eq!(status(&db.store, &id).await, (OrderStatus::Paid, 2));
        }
        db.assert_clean().await;
    }

    async fn a_dead_letter_is_replayed_once_and_a_dry_run_leaves_nothing(db) {
        create(&db.store, "O1").await;
        let id = keep(&db.store, b"not understood").await;
        let told = fact("succeeded tx1 O1 1000 EUR");
        for _ in 0..2 {
            let dry = db.store.replay_dead_letter(id.clone(), told.clone(), true).await.unwrap();
            assert_eq!(dry, Replayed::Judged(Applied));
        }
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::NotPaid, 1));
        let replayed = db.store.replay_dead_letter(id.clone(), told.clone(), false).await.unwrap();
        assert_eq!(replayed, Replayed::Judged(Applied));
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Paid, 2));
        let again = db.store.replay_dead_letter(id.clone(), told.clone(), false).await.unwrap();
        assert_eq!(again, Replayed::NotOpen(LetterState::Replayed));
        let discarded = db.store.discard_dead_letter(id, "x".to_owned()).await.unwrap();
        assert!(matches!(discarded, Discarded::NotOpen(_)));
        let missing = db.store.replay_dead_letter("unknown".to_owned(), told, false).await.unwrap();
        assert_eq!(missing, Replayed::Missing);
        // The message itself comes again: the letter stays what it is.
        keep(&db.store, b"not understood").await;
        assert_eq!(db.store.gauges().await.unwrap().dead_letters_open, 0);
        db.assert_clean().await;
    }

    async fn a_dead_letter_is_discarded_with_a_note(db) {
        let id = keep(&db.store, b"\x00\xff").await;
        let discard = async |note: &str| db.store.discard_dead_letter(id.clone(), note.to_owned()).await.unwrap();
        assert!(matches!(discard("junk").await, Discarded::Discarded(_)));
        assert!(matches!(discard("junk").await, Discarded::AlreadyThere(_)));
        assert!(matches!(discard("other").await, Discarded::NotOpen(_)));
        let letter = db.store.get_dead_letter(id).await.unwrap().unwrap();
        assert_eq!((letter.body.as_slice(), letter.note.as_deref()), (&b"\x00\xff"[..], Some("junk")));
        let open = db.store.list_dead_letters(Some(LetterState::Open), Place::START, 10).await.unwrap().items;
        assert!(open.is_empty());
        assert_eq!(db.store.list_dead_letters(None, Place::START, 10).await.unwrap().items, [letter]);
    }

    async fn open_exceptions_and_letters_are_counted_up_to_a_bound(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded t1 O1 1000 EUR", "succeeded t2 O1 1000 EUR", "succeeded t3 O1 1000 EUR",
                            "refunded r1 O1 1000 EUR"]).await;
        for body in [b"1", b"2", b"3"] {
            keep(&db.store, body).await;
        }
        let counted = |gauges: crate::Gauges| {
            let mut open = gauges.exceptions_open;
            open.sort();
            (open, gauges.dead_letters_open)
        };
        let all = vec![(Reversed, 1), (SecondPayment, 2)];
        assert_eq!(counted(db.store.gauges().await.unwrap()), (all, 3));
        let bounded = vec![(Reversed, 1), (SecondPayment, 1)];
        assert_eq!(counted(db.store.open_up_to(1).await.unwrap()), (bounded, 1));
    }

    async fn retention_forgets_what_is_closed_and_old_and_no_payment(db) {
        create(&db.store, "O1").await;
        record(&db.store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR", "succeeded w W 1 EUR"]).await;
        let closed = keep(&db.store, b"closed").await;
        keep(&db.store, b"open").await;
        db.store.discard_dead_letter(closed, "junk".to_owned()).await.unwrap();
        let keep_for = std::time::Duration::from_hours(24);
        assert_eq!(db.at(NOW + Duration::hours(23)).purge(keep_for, 1000).await.unwrap(), 0);
        assert_eq!(db.at(NOW + Duration::hours(25)).purge(keep_for, 1000).await.unwrap(), 2);
        assert_eq!(db.store.list_dead_letters(None, Place::START, 10).await.unwrap().items.len(), 1);
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR", "succeeded w W 1 EUR"]).await,
                   [Duplicate, Duplicate, Duplicate]);
        assert_eq!(history(&db.store, "O1").await.len(), 2);
        let waiting = db.store.order_payments("W".parse().unwrap(), Place::START, 10).await.unwrap().items;
        assert_eq!(waiting[0].verdict, WaitingForOrder);
        db.assert_clean().await;
    }
}
