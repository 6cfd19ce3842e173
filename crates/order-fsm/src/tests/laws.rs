use proptest::collection::vec;
use proptest::prelude::*;

use super::{content, key};
use crate::{Book, Content, Decision, OrderEvent, OrderStatus, PaymentKey, Verdict, decide};

#[derive(Debug, Clone)]
enum Step {
    Create,
    Deliver(PaymentKey, bool, Content),
}

fn play(steps: &[Step]) -> Book {
    let mut book = Book::new(true);
    for step in steps {
        match step {
            Step::Create => {
                let order = content("O1", 1000, "EUR");
                book.create(&order.order_id, order.amount, order.currency);
            }
            Step::Deliver(key, livemode, content) => {
                let before = book.orders().clone();
                let verdict = book.deliver(key, *livemode, content);
                let moved = before != *book.orders();
                assert_eq!(moved, verdict == Verdict::Applied, "{verdict} {step:?}");
            }
        }
    }
    book
}

fn kind() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("succeeded"),
        1 => Just("failed"),
        1 => Just("expired"),
        1 => Just("refunded"),
        1 => Just("reversed"),
        1 => Just("something_else"),
    ]
}

fn payment() -> impl Strategy<Value = Step> {
    (
        kind(),
        0..6_i64,
        0..4_i64,
        0..6_i64,
        any::<prop::sample::Index>(),
    )
        .prop_map(|(kind, transaction, amount, currency, livemode)| {
            // Amount, currency and mode depend on the transaction, so that no two events contradict each other.
            let transaction_id =
                format!("tx-{transaction}-{amount}-{currency}-{}", livemode.index(8));
            let amount = if amount == 0 { 999 } else { 1000 };
            let currency = if currency == 0 { "USD" } else { "EUR" };
            Step::Deliver(
                key(&transaction_id, kind),
                livemode.index(8) != 0,
                content("O1", amount, currency),
            )
        })
}

/// A set of events, one of them the creation, and the same set shuffled and with some repeated.
fn two_deliveries() -> impl Strategy<Value = (Vec<Step>, Vec<Step>)> {
    vec(payment(), 0..8)
        .prop_map(|mut steps| {
            steps.push(Step::Create);
            steps
        })
        .prop_flat_map(|steps| {
            let again = prop::sample::subsequence(steps.clone(), 0..=steps.len());
            (Just(steps.clone()).prop_shuffle(), (Just(steps), again))
        })
        .prop_flat_map(|(first, (steps, again))| {
            let all: Vec<Step> = steps.into_iter().chain(again).collect();
            (Just(first), Just(all).prop_shuffle())
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_delivery_and_any_duplication_ends_in_the_same_status(
        (first, second) in two_deliveries()
    ) {
        let (first, second) = (play(&first), play(&second));
        let status = |book: &Book| book.orders().values().map(|order| order.status).collect::<Vec<_>>();
        prop_assert_eq!(status(&first), status(&second));
        let keys = |book: &Book| book.payments().keys().cloned().collect::<Vec<_>>();
        prop_assert_eq!(keys(&first), keys(&second));
        for book in [&first, &second] {
            let applied = book.payments().values().filter(|p| p.verdict == Verdict::Applied).count();
            let paid = book.orders().values().filter(|o| o.status == OrderStatus::Paid).count();
            prop_assert_eq!(applied, paid);
        }
    }

    #[test]
    fn terminal_stays_terminal(events in vec(prop::sample::select(OrderEvent::ALL.to_vec()), 0..20)) {
        let mut status = OrderStatus::NotPaid;
        for event in events {
            if let Decision::Advance(step) = decide(status, event) {
                prop_assert!(!status.is_terminal(), "{} left by {}", status, event);
                prop_assert_eq!(step.from, status);
                status = step.to;
            }
        }
    }
}
