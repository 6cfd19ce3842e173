//! Batches cost a constant number of round trips, whatever is in them, and transactions stay short.

use order_fsm::{OrderStatus, Verdict};
use order_testkit::Proxy;

use super::*;
use crate::settle::LOT_MAX;
use crate::{Batch, CreateOutcome, NewDeadLetter};

/// A store with one connection whose round trips are counted.
struct Counted {
    proxy: Proxy,
    store: Store,
}

impl Counted {
    fn on(db: &TestDb) -> Self {
        let (proxy, url) = Proxy::before(&db.url.to_string()).unwrap();
        let options = StoreOptions {
            connections_max: 1,
            ..(*db.store.options).clone()
        };
        let store = Store::open(&url.parse().unwrap(), options);
        Self { proxy, store }
    }

    /// The round trips of a call, with those of giving its connection back.
    async fn count<T>(&self, call: impl Future<Output = Result<T, crate::Error>>) -> (T, u64) {
        let before = self.proxy.round_trips();
        let done = call.await.unwrap();
        let started = std::time::Instant::now();
        while self.store.pools()[0].idle == 0 {
            assert!(started.elapsed().as_secs() < 10, "no connection came back");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        (done, self.proxy.round_trips() - before)
    }
}

fn letter(number: usize) -> NewDeadLetter {
    NewDeadLetter {
        stream: "PAYMENTS".to_owned(),
        subject: "payments.events.acme".to_owned(),
        sequence: number as u64,
        headers: "{\"Nul\":[\"\\u0000\"]}".to_owned(),
        body: if number == 0 {
            Vec::new()
        } else {
            vec![0, 0xff, b'{', 10]
        },
        reason: "invalid-json",
        detail: "expected value\0".to_owned(),
    }
}

/// A batch of one kind of thing, numbered from `from`.
fn batch(kind: &str, from: usize, count: usize) -> Batch {
    if kind == "letters" {
        let dead_letters = (from..from + count).map(letter).collect();
        return Batch {
            facts: Vec::new(),
            dead_letters,
        };
    }
    let facts = (from..from + count).map(|number| match kind {
        "second" => fact(&format!("succeeded s{number} PAID 1000 EUR")),
        "late" => fact(&format!("succeeded l{number} CANCELLED 1000 EUR")),
        "amount" => fact(&format!("succeeded a{number} OPEN{} 1 EUR", number % 5)),
        "currency" => fact(&format!("succeeded c{number} OPEN{} 1000 USD", number % 5)),
        "reversed" => fact(&format!("reversed r{number} PAID 1000 EUR")),
        "conflict" => fact(&format!("succeeded paying PAID {} EUR", 2000 + number)),
        "waiting" => fact(&format!("succeeded w{number} LATER 1000 EUR")),
        "not live" => PaymentFact {
            livemode: false,
            ..fact(&format!("succeeded n{number} PAID 1000 EUR"))
        },
        other => panic!("{other}"),
    });
    Batch {
        facts: facts.collect(),
        dead_letters: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_costs_as_many_round_trips_as_a_small_one_whatever_becomes_of_it() {
    let db = TestDb::postgres().await;
    for id in ["PAID", "CANCELLED"]
        .map(str::to_owned)
        .into_iter()
        .chain((0..5).map(|number| format!("OPEN{number}")))
    {
        let new = new_order(&id, 1000, "EUR");
        db.store.create_order(new).await.unwrap();
    }
    record(&db.store, &["succeeded paying PAID 1000 EUR"]).await;
    let cancel = crate::Operation {
        order_id: "CANCELLED".parse().unwrap(),
        event: order_fsm::OrderEvent::Cancel,
        source: Source::Api,
        actor: "ann".to_owned(),
        reason: None,
        if_version: None,
        refused_as: REFUSED_AS,
    };
    db.store.operate(cancel).await.unwrap();

    let counted = Counted::on(&db);
    for (kind, verdict) in [
        ("second", Some(Verdict::SecondPayment)),
        ("late", Some(Verdict::PaidAfterCancel)),
        ("amount", Some(Verdict::AmountMismatch)),
        ("currency", Some(Verdict::CurrencyMismatch)),
        ("reversed", Some(Verdict::Reversed)),
        ("conflict", Some(Verdict::ConflictingContent)),
        ("not live", Some(Verdict::NotLive)),
        ("waiting", Some(Verdict::WaitingForOrder)),
        ("letters", None),
    ] {
        let run = |from, count| counted.store.record_payments(batch(kind, from, count));
        // Statements are prepared once per connection.
        counted.count(run(0, 10)).await;
        let (_, few) = counted.count(run(10, 10)).await;
        let (verdicts, many) = counted.count(run(20, 1000)).await;
        assert_eq!(many, few, "{kind}");
        let expect: Vec<Verdict> = verdict.into_iter().cycle().take(verdicts.len()).collect();
        assert_eq!(verdicts, expect, "{kind}");
    }
    let kept = db
        .store
        .list_dead_letters(None, Place::START, 2000)
        .await
        .unwrap()
        .items;
    assert_eq!(kept.len(), 1020);
    db.assert_clean().await;
}

/// Records payments that wait for an order, so that they are judged in the order of their numbers.
async fn wait_for(db: &TestDb, order_id: &str, amounts: impl Iterator<Item = i64>) {
    let facts: Vec<PaymentFact> = amounts
        .enumerate()
        .map(|(number, amount)| fact(&format!("succeeded w{number:05} {order_id} {amount} EUR")))
        .collect();
    let batch = Batch {
        facts,
        dead_letters: Vec::new(),
    };
    db.store.record_payments(batch).await.unwrap();
}

on_both! {
    async fn an_order_is_created_with_more_waiting_payments_than_one_transaction_settles(db) {
        let lot = LOT_MAX as usize;
        // The one that fits comes in the second lot.
        let amounts = (0..3 * lot).map(|number| if number >= lot + 7 { 1000 } else { 1 });
        wait_for(db, "O1", amounts).await;
        let created = db.store.create_order(new_order("O1", 1000, "EUR")).await.unwrap();
        let CreateOutcome::Created(order) = created else { panic!("{created:?}") };
        assert_eq!((order.status, order.version), (OrderStatus::Paid, 2));
        let paid_by = order.paid_by.unwrap().transaction_id.to_string();
        assert_eq!(paid_by, format!("w{:05}", lot + 7));
        let exceptions = db.exceptions().await;
        let count = |verdict| exceptions.iter().filter(|line| line.starts_with(verdict)).count();
        assert_eq!(
            (count("AMOUNT_MISMATCH"), count("SECOND_PAYMENT"), exceptions.len()),
            (lot + 7, 2 * lot - 8, 3 * lot - 1)
        );
        db.assert_clean().await;
    }

    async fn letters_are_kept_byte_for_byte_and_once(db) {
        for _ in 0..2 {
            let batch = Batch { facts: Vec::new(), dead_letters: vec![letter(1), letter(0), letter(1)] };
            db.store.record_payments(batch).await.unwrap();
        }
        let kept = db.store.list_dead_letters(None, Place::START, 10).await.unwrap().items;
        let mut kept: Vec<_> = kept.iter().map(|kept| (kept.sequence, kept.body.clone(), kept.detail.clone())).collect();
        kept.sort();
        let detail = "expected value\u{fffd}".to_owned();
        assert_eq!(kept, [(0, vec![], detail.clone()), (1, vec![0, 0xff, b'{', 10], detail)]);
    }
}

/// With a round trip per payment, the transaction would exceed its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creating_an_order_with_two_thousand_waiting_payments_needs_few_round_trips() {
    let db = TestDb::postgres().await;
    wait_for(&db, "O1", std::iter::repeat_n(1000, 2000)).await;
    let counted = Counted::on(&db);
    let call = counted.store.create_order(new_order("O1", 1000, "EUR"));
    let (created, round_trips) = counted.count(call).await;
    let CreateOutcome::Created(order) = created else {
        panic!("{created:?}")
    };
    assert_eq!((order.status, order.version), (OrderStatus::Paid, 2));
    assert!(round_trips < 120, "{round_trips}");
    db.assert_clean().await;
}
