//! What the contract promises, one short story each.

use order_fsm::OrderEvent;
use order_fsm::OrderStatus;
use order_fsm::Verdict::{
    AmountMismatch, Applied, AttemptFailed, ConflictingContent, CurrencyMismatch, Duplicate,
    NotLive, PaidAfterCancel, Reversed, SecondPayment, Unsupported, WaitingForOrder,
};
use time::Duration;

use super::*;
use crate::{
    Batch, CreateOutcome, NewDeadLetter, Operated, Operation, Outcome, PaymentFilter, WaitingRange,
    exception_id,
};

async fn create(store: &Store, id: &str) -> CreateOutcome {
    store
        .create_order(new_order(id, 1000, "EUR"))
        .await
        .unwrap()
}

async fn operate(store: &Store, id: &str, event: OrderEvent) -> Operated {
    let operation = Operation {
        order_id: id.parse().unwrap(),
        event,
        source: Source::Api,
        actor: "shop".to_owned(),
        reason: None,
        if_version: None,
        refused_as: REFUSED_AS,
    };
    store.operate(operation).await.unwrap()
}

async fn status(store: &Store, id: &str) -> (OrderStatus, i64) {
    let order = store.get_order(id.parse().unwrap()).await.unwrap().unwrap();
    (order.status, order.version)
}

/// A history as `version event outcome reason`.
async fn history(store: &Store, id: &str) -> Vec<String> {
    let items = store
        .history(id.parse().unwrap(), Place::START, 100)
        .await
        .unwrap()
        .items;
    items
        .into_iter()
        .map(|item| {
            let outcome = if item.outcome == Outcome::Applied {
                "applied"
            } else {
                "refused"
            };
            format!(
                "{} {} {outcome} {}",
                item.version,
                item.event,
                item.reason.unwrap_or_default()
            )
        })
        .map(|line| line.trim_end().to_owned())
        .collect()
}

on_both! {
    async fn a_payment_counts_once_whatever_its_labels_say(db) {
        create(&db.store, "O1").await;
        let mut again = fact("succeeded tx1 O1 1000 EUR");
        again.event_id = Some("another".parse().unwrap());
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Applied]);
        let batch = Batch { facts: vec![again.clone(), again], dead_letters: Vec::new() };
        assert_eq!(db.store.record_payments(batch).await.unwrap(), [Duplicate, Duplicate]);
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Paid, 2));
        assert_eq!(history(&db.store, "O1").await, ["1 create applied", "2 pay applied"]);
        for days in [1, 8, 40, 4000] {
            let later = db.at(NOW + Duration::days(days));
            assert_eq!(record(&later, &["succeeded tx1 O1 1000 EUR"]).await, [Duplicate]);
        }
        db.assert_clean().await;
    }

    async fn the_same_payment_twice_in_a_batch_is_taken_out_in_memory(db) {
        create(&db.store, "O1").await;
        let batch = ["succeeded tx1 O1 1000 EUR", "succeeded tx1 O1 1000 EUR",
                     "succeeded tx1 O1 1001 EUR", "succeeded tx1 O2 1000 EUR"];
        let verdicts = record(&db.store, &batch).await;
        assert_eq!(verdicts, [Applied, Duplicate, ConflictingContent, ConflictingContent]);
        assert_eq!(record(&db.store, &batch).await,
                   [Duplicate, Duplicate, ConflictingContent, ConflictingContent]);
        assert_eq!(db.exceptions().await, [
            "CONFLICTING_CONTENT tx1 O1 1001 EUR open",
            "CONFLICTING_CONTENT tx1 O2 1000 EUR open",
        ]);
        db.assert_clean().await;
    }

    async fn a_failure_and_a_success_of_one_transaction_are_two_payments(db) {
        create(&db.store, "O1").await;
        assert_eq!(record(&db.store, &["failed tx1 O1 1000 EUR"]).await, [AttemptFailed]);
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Applied]);
        assert_eq!(record(&db.store, &["failed tx2 O1 1000 EUR"]).await, [AttemptFailed]);
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Paid, 2));
        assert!(db.exceptions().await.is_empty());
        db.assert_clean().await;
    }

    async fn a_second_payment_needs_a_refund_and_leaves_one_refusal(db) {
        create(&db.store, "O1").await;
        let both = ["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR"];
        assert_eq!(record(&db.store, &both).await, [Applied, SecondPayment]);
        assert_eq!(record(&db.store, &both).await, [Duplicate, Duplicate]);
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Ship).await, Operated::Applied(_)));
        assert_eq!(record(&db.store, &["succeeded tx3 O1 7 USD"]).await, [SecondPayment]);
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Complete).await, Operated::Applied(_)));
        assert_eq!(record(&db.store, &["succeeded tx4 O1 1000 EUR", both[0]]).await,
                   [SecondPayment, Duplicate]);
        assert_eq!(history(&db.store, "O1").await, [
            "1 create applied", "2 pay applied", "2 pay refused SECOND_PAYMENT",
            "3 ship applied", "3 pay refused SECOND_PAYMENT",
            "4 complete applied", "4 pay refused SECOND_PAYMENT",
        ]);
        assert_eq!(db.exceptions().await, [
            "SECOND_PAYMENT tx2 O1 1000 EUR open",
            "SECOND_PAYMENT tx3 O1 7 USD open",
            "SECOND_PAYMENT tx4 O1 1000 EUR open",
        ]);
        db.assert_clean().await;
    }

    async fn only_the_exact_amount_in_the_exact_currency_applies(db) {
        create(&db.store, "O1").await;
        let facts = ["succeeded tx1 O1 999 EUR", "succeeded tx2 O1 1001 EUR",
                     "succeeded tx3 O1 1000 USD", "succeeded tx4 O1 1 USD"];
        assert_eq!(record(&db.store, &facts).await,
                   [AmountMismatch, AmountMismatch, CurrencyMismatch, CurrencyMismatch]);
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::NotPaid, 1));
        assert_eq!(record(&db.store, &["succeeded tx5 O1 1000 EUR"]).await, [Applied]);
        assert_eq!(db.exceptions().await.len(), 4);
        db.assert_clean().await;
    }

    async fn a_payment_after_the_cancellation_is_an_exception_once(db) {
        create(&db.store, "O1").await;
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Cancel).await, Operated::Applied(_)));
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Cancel).await, Operated::AlreadyThere(_)));
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [PaidAfterCancel]);
        for _ in 0..10 {
            assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Duplicate]);
        }
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Cancelled, 2));
        assert_eq!(db.exceptions().await, ["PAID_AFTER_CANCEL tx1 O1 1000 EUR open"]);
        assert_eq!(history(&db.store, "O1").await, [
            "1 create applied", "2 cancel applied", "2 pay refused PAID_AFTER_CANCEL",
        ]);
        db.assert_clean().await;
    }

    async fn an_order_with_money_waiting_for_a_person_is_not_cancelled(db) {
        create(&db.store, "O1").await;
        assert_eq!(record(&db.store, &["succeeded tx1 O1 999 EUR"]).await, [AmountMismatch]);
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Cancel).await, Operated::MoneyHeld(_)));
        create(&db.store, "O2").await;
        assert_eq!(record(&db.store, &["refunded rf1 O2 1000 EUR"]).await, [Reversed]);
        assert!(matches!(operate(&db.store, "O2", OrderEvent::Cancel).await, Operated::Applied(_)));
        db.assert_clean().await;
    }

    async fn a_payment_waits_for_its_order_and_is_applied_with_its_creation(db) {
        let early = ["succeeded tx1 O9 1000 EUR", "failed tx0 O9 1000 EUR"];
        assert_eq!(record(&db.store, &early).await, [WaitingForOrder, AttemptFailed]);
        assert_eq!(record(&db.store, &early).await, [Duplicate, Duplicate]);
        let waiting = PaymentFilter { verdict: Some(WaitingForOrder), ..PaymentFilter::default() };
        assert_eq!(db.store.list_payments(waiting.clone(), Place::START, 50).await.unwrap().items.len(), 1);
        let CreateOutcome::Created(order) = create(&db.store, "O9").await else { panic!() };
        assert_eq!((order.status, order.version), (OrderStatus::Paid, 2));
        assert_eq!(order.paid_by.unwrap().transaction_id.as_str(), "tx1");
        assert!(db.store.list_payments(waiting, Place::START, 50).await.unwrap().items.is_empty());
        assert!(matches!(create(&db.store, "O9").await, CreateOutcome::AlreadyThere(_)));
        assert_eq!(status(&db.store, "O9").await, (OrderStatus::Paid, 2));
        db.assert_clean().await;
    }

    async fn waiting_payments_are_judged_in_the_order_of_their_arrival(db) {
        record(&db.at(NOW + Duration::seconds(2)), &["succeeded tx-a O1 1000 EUR"]).await;
        record(&db.at(NOW + Duration::seconds(1)), &["succeeded tx-z O1 1000 EUR"]).await;
        record(&db.at(NOW), &["succeeded tx-m O1 999 EUR"]).await;
        let CreateOutcome::Created(order) = create(&db.store, "O1").await else { panic!() };
        assert_eq!(order.paid_by.unwrap().transaction_id.as_str(), "tx-z");
        let payments = db.store.order_payments("O1".parse().unwrap(), Place::START, 50).await.unwrap().items;
        let verdicts: Vec<_> =
            payments.iter().map(|p| (p.key.transaction_id.as_str(), p.verdict)).collect();
        assert_eq!(verdicts, [("tx-m", AmountMismatch), ("tx-z", Applied), ("tx-a", SecondPayment)]);
        db.assert_clean().await;
    }

    async fn a_waiting_payment_that_a_person_closed_is_not_applied_any_more(db) {
        record(&db.store, &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O2 1000 EUR"]).await;
        for (transaction, order) in [("tx1", "O1"), ("tx2", "O2")] {
            let id = exception_id(WaitingForOrder, &key(transaction, "succeeded"), &content(order, 1000, "EUR"));
            open_waiting(db, id, transaction, order).await;
        }
        db.tamper("UPDATE payment_exceptions SET state = 'closed', resolution = 'refunded',
                          closed_by = 'ann', closed_at = opened_at WHERE order_id = 'O1'").await;
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::NotPaid, 1));
        assert_eq!(status(&db.store, "O2").await, (OrderStatus::Paid, 2));
        assert_eq!(db.exceptions().await, [
            "WAITING_FOR_ORDER tx1 O1 1000 EUR closed",
            "WAITING_FOR_ORDER tx2 O2 1000 EUR closed",
        ]);
        assert_eq!(db.store.settle_stranded(WaitingRange::ALL, false).await.unwrap(), 0);
        let later = db.at(NOW + Duration::hours(1));
        assert!(later.audit().await.unwrap().is_empty());
    }

    async fn a_refund_before_its_success_does_not_hold_it_up(db) {
        create(&db.store, "O1").await;
        assert_eq!(record(&db.store, &["refunded rf1 O1 1000 EUR"]).await, [Reversed]);
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Applied]);
        assert_eq!(record(&db.store, &["reversed rv1 O1 400 EUR", "succeeded tx1 O1 1000 EUR"]).await,
                   [Reversed, Duplicate]);
        assert_eq!(db.exceptions().await.len(), 2);
        db.assert_clean().await;
    }

    async fn test_money_and_odd_kinds_never_move_an_order(db) {
        create(&db.store, "O1").await;
        let mut test_money = fact("succeeded tx1 O1 1000 EUR");
        test_money.livemode = false;
        let mut test_failure = fact("failed tx2 O1 1000 EUR");
        test_failure.livemode = false;
        let odd = fact("partially_refunded_v2 tx3 O1 1000 EUR");
        let facts = vec![test_money.clone(), test_failure, odd, test_money];
        let batch = Batch { facts, dead_letters: Vec::new() };
        assert_eq!(db.store.record_payments(batch).await.unwrap(),
                   [NotLive, NotLive, Unsupported, NotLive]);
        assert_eq!(db.exceptions().await, ["NOT_LIVE tx1 O1 1000 EUR open"]);
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Applied]);
        db.assert_clean().await;
    }

    async fn a_transaction_is_bound_to_its_first_order_for_ever(db) {
        create(&db.store, "O1").await;
        create(&db.store, "O2").await;
        assert_eq!(record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await, [Applied]);
        assert_eq!(record(&db.store, &["succeeded tx1 O2 1000 EUR", "failed tx1 O2 1000 EUR",
                                       "failed tx1 O1 1000 EUR"]).await,
                   [ConflictingContent, AttemptFailed, ConflictingContent]);
        assert_eq!(status(&db.store, "O2").await, (OrderStatus::NotPaid, 1));
        assert_eq!(db.exceptions().await, ["CONFLICTING_CONTENT tx1 O2 1000 EUR open"]);
        db.assert_clean().await;
    }

    async fn an_order_is_created_once_and_a_different_one_is_a_conflict(db) {
        let CreateOutcome::Created(order) = create(&db.store, "O1").await else { panic!() };
        assert_eq!(order.pay_by, NOW + Duration::minutes(30));
        assert_eq!((order.created_at, order.updated_at), (NOW, NOW));
        let later = db.at(NOW + Duration::hours(9));
        assert_eq!(create(&later, "O1").await, CreateOutcome::AlreadyThere(order.clone()));
        for (amount, currency) in [(1001, "EUR"), (1000, "USD")] {
            let outcome = db.store.create_order(new_order("O1", amount, currency)).await.unwrap();
            assert_eq!(outcome, CreateOutcome::Differs(order.clone()));
        }
        let with = |pay_by| NewOrder { pay_by: Some(pay_by), ..new_order("O1", 1000, "EUR") };
        let same = db.store.create_order(with(order.pay_by + Duration::nanoseconds(7))).await.unwrap();
        assert_eq!(same, CreateOutcome::AlreadyThere(order.clone()));
        let other = db.store.create_order(with(order.pay_by + Duration::SECOND)).await.unwrap();
        assert_eq!(other, CreateOutcome::Differs(order));
        let past = NewOrder { pay_by: Some(datetime!(1969-12-31 23:59 UTC)), ..new_order("O2", 1, "EUR") };
        assert!(matches!(db.store.create_order(past).await.unwrap(), CreateOutcome::Created(_)));
        db.assert_clean().await;
    }

    async fn operations_answer_applied_already_there_refused_or_missing(db) {
        assert_eq!(operate(&db.store, "O1", OrderEvent::Ship).await, Operated::Missing);
        create(&db.store, "O1").await;
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Ship).await,
                         Operated::Refused(_, order_fsm::Refusal::NotPaidYet)));
        record(&db.store, &["succeeded tx1 O1 1000 EUR"]).await;
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Cancel).await,
                         Operated::Refused(_, order_fsm::Refusal::AlreadyPaid)));
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Ship).await, Operated::Applied(_)));
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Ship).await, Operated::AlreadyThere(_)));
        assert!(matches!(operate(&db.store, "O1", OrderEvent::Complete).await, Operated::Applied(_)));
        assert_eq!(status(&db.store, "O1").await, (OrderStatus::Done, 4));
        db.assert_clean().await;
    }

    async fn a_batch_of_everything_is_one_transaction(db) {
        for number in 0..60 {
            create(&db.store, &format!("O{number}")).await;
        }
        let mut facts: Vec<String> =
            (0..100).map(|number| format!("succeeded tx{number} O{number} 1000 EUR")).collect();
        facts[50] = facts[49].clone();
        let texts: Vec<&str> = facts.iter().map(String::as_str).collect();
        let verdicts = record(&db.store, &texts).await;
        let count = |verdict| verdicts.iter().filter(|v| **v == verdict).count();
        assert_eq!((count(Applied), count(Duplicate), count(WaitingForOrder)), (59, 1, 40));
        db.assert_clean().await;
    }

    async fn a_dead_letter_is_kept_byte_for_byte_once(db) {
        let letter = NewDeadLetter {
            stream: "PAYMENTS".to_owned(), subject: "payments.events.a\0b".to_owned(), sequence: 7,
            headers: "{}".to_owned(), body: vec![0, 0xff, b'"'], reason: "invalid-utf8",
            detail: "at byte 1".to_owned(),
        };
        for _ in 0..3 {
            let dead_letters = vec![letter.clone(), letter.clone()];
            db.store.record_payments(Batch { facts: Vec::new(), dead_letters }).await.unwrap();
        }
        assert_eq!(db.store.gauges().await.unwrap().dead_letters_open, 1);
        let other = NewDeadLetter { sequence: 8, ..letter };
        db.store.record_payments(Batch { facts: Vec::new(), dead_letters: vec![other] }).await.unwrap();
        assert_eq!(db.store.gauges().await.unwrap().dead_letters_open, 2);
    }

    async fn lists_page_by_key_and_show_each_row_once(db) {
        create(&db.store, "O1").await;
        let facts: Vec<String> = (0..17).map(|n| format!("succeeded tx{n:02} O1 1000 EUR")).collect();
        record(&db.store, &facts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let mut seen = Vec::new();
        let mut from = Some(Place::START);
        while let Some(at) = from {
            let page = db.store.order_payments("O1".parse().unwrap(), at, 4).await.unwrap();
            from = page.next;
            seen.extend(page.items.into_iter().map(|p| p.key.transaction_id.to_string()));
        }
        let expected: Vec<String> = (0..17).map(|n| format!("tx{n:02}")).collect();
        assert_eq!(seen, expected);
        let (mut items, mut from) = (Vec::new(), Some(Place::START));
        while let Some(at) = from {
            let page = db.store.history("O1".parse().unwrap(), at, 5).await.unwrap();
            from = page.next;
            items.extend(page.items);
        }
        assert_eq!(items, db.store.history("O1".parse().unwrap(), Place::START, 200).await.unwrap().items);
        assert_eq!(items.len(), 18);
        let by_transaction = PaymentFilter { transaction_id: Some("tx03".parse().unwrap()), ..PaymentFilter::default() };
        let found = db.store.list_payments(by_transaction, Place::START, 50).await.unwrap().items;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].content.order_id.as_str(), "O1");
    }

    async fn the_audit_finds_what_is_broken(db) {
        for id in ["A1", "A2", "A3", "A4", "A5", "A6"] {
            create(&db.store, id).await;
        }
        record(&db.store, &[
            "succeeded a2 A2 1000 EUR", "succeeded a3 A3 1000 EUR", "succeeded a4 A4 7 EUR",
            "succeeded a5 A5 7 EUR", "failed a6 A6 1000 EUR",
        ]).await;
        db.assert_clean().await;
        db.tamper("UPDATE orders SET version = 3 WHERE order_id = 'A1'").await;
        db.tamper("UPDATE payments SET verdict = 'SECOND_PAYMENT' WHERE transaction_id = 'a2'").await;
        db.tamper("UPDATE orders SET status = 'NOT_PAID', paid_provider = NULL,
                          paid_transaction_id = NULL WHERE order_id = 'A3'").await;
        db.tamper("DELETE FROM payment_exceptions WHERE order_id = 'A4'").await;
        db.tamper("UPDATE payments SET verdict = 'WAITING_FOR_ORDER' WHERE transaction_id = 'a5'").await;
        db.loosen("payment_exceptions").await;
        db.tamper("UPDATE payment_exceptions SET verdict = 'BOGUS', id = 'bogus' WHERE order_id = 'A5'").await;
        db.store.gauges().await.unwrap();
        let found = db.at(NOW + Duration::minutes(2)).audit().await.unwrap();
        let found: Vec<String> = found.iter().map(|f| format!("{} {}", f.invariant, f.id)).collect();
        assert_eq!(found, [
            "A1 A1", "A1 A3", "A2 A2", "A2 A3", "A2 A3", "A3 acme/a3/succeeded",
            "A4 acme/a2/succeeded", "A4 acme/a4/succeeded", "A5 acme/a5/succeeded", "A6 bogus",
        ]);
    }
}

async fn open_waiting(db: &TestDb, id: String, transaction: &'static str, order: &'static str) {
    const OPEN: Sql = Sql::both(
        "INSERT INTO payment_exceptions (id, verdict, order_id, provider, transaction_id, kind,
                amount, currency, occurred_at, opened_at)
         SELECT $1, 'WAITING_FOR_ORDER', order_id, provider, transaction_id, kind, amount,
                currency, occurred_at, received_at
           FROM payments WHERE transaction_id = $2 AND order_id = $3",
    );
    let args = (id, transaction, order);
    let opened = db.store.write(
        "testing",
        args,
        async |tx: &mut Tx, args: &(String, &str, &str)| {
            execute!(tx.conn(), OPEN, args.0.as_str(), args.1, args.2).map_err(doing("testing"))
        },
    );
    assert_eq!(opened.await.unwrap(), 1);
}
