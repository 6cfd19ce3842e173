//! Lists leave rows out that can't be read, say how many, and go on past them.

use order_fsm::OrderStatus;

use super::*;
use crate::{
    ExceptionFilter, NewDeadLetter, OrderFilter, Page, PaymentFilter, RunCounts, RunState,
    StartedBy,
};

/// The lists of this service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Orders,
    PaidOrders,
    History,
    OrderPayments,
    Payments,
    PaymentsOfTransaction,
    Exceptions,
    DeadLetters,
    Runs,
}

/// All readable items of a list as text, and how many rows were reported as unreadable.
async fn walk(store: &Store, list: List, limit: u32) -> (Vec<String>, u32) {
    macro_rules! walk {
        ($page:expr, $name:expr) => {{
            let (mut seen, mut unreadable, mut from) = (Vec::new(), 0, Some(Place::START));
            while let Some(at) = from {
                let page: Page<_, _> = $page(at).await.unwrap();
                assert!(page.items.len() + page.unreadable as usize <= limit as usize);
                seen.extend(page.items.iter().map($name));
                unreadable += page.unreadable;
                from = page.next;
                assert!(seen.len() < 100, "{list:?} goes round in circles");
            }
            (seen, unreadable)
        }};
    }
    let order = |order: &crate::Order| order.order_id.to_string();
    let payment = |payment: &crate::Payment| payment.key.transaction_id.to_string();
    match list {
        List::Orders => walk!(
            |at| store.list_orders(OrderFilter::default(), at, limit),
            order
        ),
        List::PaidOrders => {
            let paid = || OrderFilter {
                status: Some(OrderStatus::Paid),
                ..OrderFilter::default()
            };
            walk!(|at| store.list_orders(paid(), at, limit), order)
        }
        List::History => walk!(
            |at| store.history("O3".parse().unwrap(), at, limit),
            |item: &crate::HistoryItem| format!("{} {:?}", item.version, item.outcome)
        ),
        List::OrderPayments => {
            walk!(
                |at| store.order_payments("O3".parse().unwrap(), at, limit),
                payment
            )
        }
        List::Payments => {
            walk!(
                |at| store.list_payments(PaymentFilter::default(), at, limit),
                payment
            )
        }
        List::PaymentsOfTransaction => {
            let filter = || PaymentFilter {
                transaction_id: Some("tx3".parse().unwrap()),
                ..PaymentFilter::default()
            };
            walk!(
                |at| store.list_payments(filter(), at, limit),
                |payment: &crate::Payment| {
                    format!("{}/{}", payment.key.transaction_id, payment.key.kind)
                }
            )
        }
        List::Exceptions => walk!(
            |at| store.list_exceptions(ExceptionFilter::default(), at, limit),
            |exception: &crate::PaymentException| exception.key.transaction_id.to_string()
        ),
        List::DeadLetters => walk!(
            |at| store.list_dead_letters(None, at, limit),
            |letter: &crate::DeadLetter| letter.sequence.to_string()
        ),
        List::Runs => walk!(|at| store.list_runs(at, limit), |run: &crate::Run| run
            .id
            .clone()),
    }
}

/// Five of everything, at different times, with names that end in 1 to 5.
async fn fill(db: &TestDb) {
    for n in 1..=5_u64 {
        let store = db.at(NOW + std::time::Duration::from_secs(n));
        store
            .create_order(new_order(&format!("O{n}"), 1000, "EUR"))
            .await
            .unwrap();
        // The second one is an exception, and so is the refund of it.
        record(
            &store,
            &[
                &format!("succeeded tx{n} O3 1000 EUR"),
                &format!("refunded tx{n} O3 1000 EUR"),
            ],
        )
        .await;
        if n != 3 {
            record(&store, &[&format!("succeeded own{n} O{n} 1000 EUR")]).await;
        }
        let letter = NewDeadLetter {
            stream: "PAYMENTS".to_owned(),
            subject: "payments.events.acme".to_owned(),
            sequence: n,
            headers: "{}".to_owned(),
            body: vec![1],
            reason: "invalid-json",
            detail: String::new(),
        };
        let batch = crate::Batch {
            facts: Vec::new(),
            dead_letters: vec![letter],
        };
        store.record_payments(batch).await.unwrap();
        let id = format!("run{n}");
        let ttl = std::time::Duration::from_secs(30);
        store
            .start_run(id.clone(), StartedBy::Cli, false, ttl)
            .await
            .unwrap();
        let ended = store.end_run(id, RunState::Done, RunCounts::default(), Vec::new());
        assert!(ended.await.unwrap());
    }
    for table in [
        "orders",
        "payments",
        "transitions",
        "refusals",
        "payment_exceptions",
        "dead_letters",
        "runs",
    ] {
        db.loosen(table).await;
    }
}

/// The list shows what it shows of an undamaged database, except the items that `gone` names.
async fn check(db: &TestDb, list: List, before: &[String], gone: fn(&str) -> bool) {
    let left: Vec<&String> = before.iter().filter(|item| !gone(item)).collect();
    let count = before.len() - left.len();
    assert!(count > 0, "{list:?}: nothing is gone");
    for limit in [1, 2, 3, 4, 50] {
        let (seen, unreadable) = walk(&db.store, list, limit).await;
        assert_eq!(seen.iter().collect::<Vec<_>>(), left, "{list:?} by {limit}");
        assert_eq!(unreadable as usize, count, "{list:?} by {limit}");
    }
}

/// Damages rows, looks, and puts the table back.
async fn damaged(db: &TestDb, list: List, damage: &[&'static str], gone: fn(&str) -> bool) {
    let (before, none) = walk(&db.store, list, 50).await;
    assert_eq!(none, 0);
    for statement in damage {
        db.tamper(statement).await;
    }
    check(db, list, &before, gone).await;
}

on_both! {
    async fn orders_go_on(db) {
        fill(db).await;
        damaged(db, List::Orders, &[
            "UPDATE orders SET currency = 'eur' WHERE order_id = 'O1'",
            "UPDATE orders SET status = 'REFUNDED' WHERE order_id = 'O2'",
            "UPDATE orders SET amount = 0 WHERE order_id = 'O5'",
        ], |id| id != "O3" && id != "O4").await;
        // Its status isn't the one that was asked for, whatever it is; its creation stands.
        db.tamper("UPDATE orders SET status = 'PAID' WHERE order_id = 'O2'").await;
        let paid = ["O1", "O2", "O3", "O4", "O5"].map(str::to_owned);
        check(db, List::PaidOrders, &paid, |id| id == "O1" || id == "O5").await;
    }

    async fn orders_go_on_past_nothing_but_damage(db) {
        fill(db).await;
        damaged(db, List::Orders, &["UPDATE orders SET currency = 'eur' WHERE order_id <> ''"], |_| true).await;
        check(db, List::PaidOrders, &["O1", "O2", "O3", "O4", "O5"].map(str::to_owned), |_| true).await;
    }

    async fn histories_go_on(db) {
        fill(db).await;
        damaged(db, List::History, &[
            "UPDATE transitions SET from_status = 'LOST' WHERE order_id = 'O3' AND version = 2",
        ], |item| item == "2 Applied").await;
    }

    async fn histories_go_on_past_refusals(db) {
        fill(db).await;
        let (before, _) = walk(&db.store, List::History, 50).await;
        assert_eq!(before, ["1 Applied", "2 Applied", "2 Refused", "2 Refused", "2 Refused", "2 Refused"]);
        db.tamper("UPDATE refusals SET event = 'lost' WHERE order_id = 'O3'").await;
        for limit in [1, 2, 50] {
            let (seen, unreadable) = walk(&db.store, List::History, limit).await;
            assert_eq!((seen, unreadable), (before[..2].to_vec(), 4), "{limit}");
        }
    }

    async fn payments_go_on(db) {
        fill(db).await;
        let damage = [
            "UPDATE payments SET verdict = 'NEWER' WHERE transaction_id = 'tx1'",
            "UPDATE payments SET source = 'fax' WHERE transaction_id = 'tx4'",
            "UPDATE payments SET verdict = 'DUPLICATE' WHERE transaction_id = 'tx5'",
        ];
        let (of_order, _) = walk(&db.store, List::OrderPayments, 50).await;
        damaged(db, List::Payments, &damage, |id| ["tx1", "tx4", "tx5"].contains(&id)).await;
        check(db, List::OrderPayments, &of_order, |id| ["tx1", "tx4", "tx5"].contains(&id)).await;
    }

    async fn payments_of_a_transaction_go_on(db) {
        fill(db).await;
        // Its key is damaged, and it comes before the others.
        damaged(db, List::PaymentsOfTransaction, &[
            "UPDATE payments SET provider = 'ACME' WHERE transaction_id = 'tx3' AND kind = 'succeeded'",
        ], |item| item == "tx3/succeeded").await;
    }

    async fn exceptions_go_on(db) {
        fill(db).await;
        damaged(db, List::Exceptions, &[
            "UPDATE payment_exceptions SET verdict = 'NEWER' WHERE transaction_id = 'tx1'",
            "UPDATE payment_exceptions SET currency = 'eur' WHERE transaction_id = 'tx5'",
            "UPDATE payment_exceptions SET resolution = 'lost', closed_at = opened_at, state = 'closed'
              WHERE transaction_id = 'tx3' AND kind = 'succeeded'",
            "UPDATE payment_exceptions SET state = 'lost' WHERE transaction_id = 'tx3' AND kind = 'refunded'",
        ], |id| ["tx1", "tx3", "tx5"].contains(&id)).await;
    }

    async fn dead_letters_go_on(db) {
        fill(db).await;
        damaged(db, List::DeadLetters, &[
            "UPDATE dead_letters SET state = 'lost' WHERE sequence IN (1, 2, 5)",
        ], |id| ["1", "2", "5"].contains(&id)).await;
    }

    async fn runs_go_on(db) {
        fill(db).await;
        damaged(db, List::Runs, &[
            "UPDATE runs SET state = 'lost' WHERE id IN ('run5', 'run1')",
            "UPDATE runs SET asked = -1 WHERE id = 'run2'",
        ], |id| ["run1", "run2", "run5"].contains(&id)).await;
    }
}

#[tokio::test]
async fn lists_go_on_past_times_that_only_postgres_knows() {
    let db = TestDb::postgres().await;
    fill(&db).await;
    let list = |list, damage, gone| {
        let db = &db;
        async move { damaged(db, list, &[damage], gone).await }
    };
    list(
        List::Orders,
        "UPDATE orders SET updated_at = 'infinity' WHERE order_id = 'O5'",
        |id| id == "O5",
    )
    .await;
    for damage in [
        "UPDATE orders SET updated_at = created_at, created_at = 'infinity' WHERE order_id = 'O5'",
        "UPDATE orders SET created_at = '-infinity' WHERE order_id = 'O5'",
    ] {
        db.tamper(damage).await;
        for list in [List::Orders, List::PaidOrders] {
            let orders = ["O1", "O2", "O3", "O4", "O5"].map(str::to_owned);
            check(&db, list, &orders, |id| id == "O5").await;
        }
    }
    list(
        List::DeadLetters,
        "UPDATE dead_letters SET received_at = 'infinity' WHERE sequence IN (4, 5)",
        |id| id == "4" || id == "5",
    )
    .await;
    list(
        List::Exceptions,
        "UPDATE payment_exceptions SET opened_at = 'infinity' WHERE transaction_id IN ('tx2', 'tx4')",
        |id| id == "tx2" || id == "tx4",
    )
    .await;
    list(
        List::OrderPayments,
        "UPDATE payments SET received_at = '20000-01-01 00:00:00Z' WHERE transaction_id = 'tx2'",
        |id| id == "tx2",
    )
    .await;
}

#[tokio::test]
async fn lists_go_on_past_keys_that_are_not_text_in_sqlite() {
    let db = TestDb::sqlite().await;
    fill(&db).await;
    damaged(
        &db,
        List::Orders,
        &[
            "UPDATE orders SET order_id = CAST(x'4f32ff' AS TEXT) WHERE order_id = 'O2'",
            "UPDATE orders SET created_at = 9223372036854775807 WHERE order_id = 'O5'",
        ],
        |id| id == "O2" || id == "O5",
    )
    .await;
    check(
        &db,
        List::PaidOrders,
        &["O1", "O2", "O3", "O4", "O5"].map(str::to_owned),
        |id| id == "O2" || id == "O5",
    )
    .await;
    damaged(
        &db,
        List::DeadLetters,
        &[
            "UPDATE dead_letters SET id = x'ff' WHERE sequence = 5",
            "UPDATE dead_letters SET headers = CAST(x'ff' AS TEXT) WHERE sequence = 1",
        ],
        |id| id == "1" || id == "5",
    )
    .await;
    damaged(
        &db,
        List::Payments,
        &[
            "UPDATE payments SET provider = CAST(x'ff' AS TEXT) WHERE transaction_id = 'tx1'",
            "UPDATE payments SET provider = CAST(x'00' AS TEXT) WHERE transaction_id = 'tx2'",
        ],
        |id| id == "tx1" || id == "tx2",
    )
    .await;
}
