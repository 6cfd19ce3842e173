//! The test that matters most: whatever concurrent writers make of a set of facts is what some
//! order of judging them one by one gives.
//!
//! Orders and payments come in small groups that share nothing with each other. For each group
//! every order of its steps is applied to a [`Book`]; the outcome in the database must be one of
//! those, and the audit must be clean.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use order_fsm::{Book, BookOrder, BookPayment, ExceptionKey, OrderEvent, OrderId};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::*;
use crate::{Batch, Operation};

const GROUPS: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    Create(OrderId),
    Cancel(OrderId),
    Tell(Box<PaymentFact>),
}

type Outcome = (
    BTreeMap<OrderId, BookOrder>,
    BTreeMap<PaymentKey, BookPayment>,
    BTreeSet<ExceptionKey>,
);

on_both! {
    async fn concurrent_writers_give_what_judging_one_by_one_gives(db) {
        rounds(&db.store, 1000, rounds_wanted(60)).await;
    }

    async fn the_same_holds_without_the_fast_advance(db) {
        let slow = db.store.with_options(|options| options.fast_advance = false);
        rounds(&slow, 5000, rounds_wanted(60)).await;
    }
}

/// More by hand: `ORDERD_TEST_RACE_ROUNDS=5000`.
fn rounds_wanted(default: u64) -> u64 {
    std::env::var("ORDERD_TEST_RACE_ROUNDS").map_or(default, |text| text.parse().unwrap())
}

pub(super) async fn rounds(store: &Store, first_seed: u64, count: u64) {
    for seed in first_seed..first_seed + count {
        round(store, seed).await;
    }
    let findings = store.audit().await.unwrap();
    assert!(findings.is_empty(), "{findings:#?}");
    outbox::assert_complete_and_in_version_order(store).await;
}

async fn round(store: &Store, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let groups: Vec<Vec<Step>> = (0..GROUPS)
        .map(|number| group(&mut rng, &format!("{seed}-{number}")))
        .collect();
    run(store, &mut rng, groups.concat()).await;
    for steps in groups {
        let found = outcome(store, &steps).await;
        let possible = outcomes(&steps);
        assert!(
            possible.contains(&found),
            "seed {seed}: no order of {steps:#?}\ngives {found:#?}\nbut one of {possible:#?}"
        );
    }
}

/// One or two orders, some payments for them, some reported twice or with other content.
fn group(rng: &mut SmallRng, name: &str) -> Vec<Step> {
    let orders: Vec<OrderId> = (0..rng.random_range(1..=2))
        .map(|number| format!("O-{name}-{number}").parse().unwrap())
        .collect();
    let mut steps = Vec::new();
    for order in &orders {
        if rng.random_bool(0.9) {
            steps.push(Step::Create(order.clone()));
        }
        if rng.random_bool(0.4) {
            steps.push(Step::Cancel(order.clone()));
        }
    }
    for _ in 0..rng.random_range(1..=4) {
        let kind = [
            "succeeded",
            "succeeded",
            "succeeded",
            "succeeded",
            "failed",
            "refunded",
        ][rng.random_range(0..6)];
        let transaction = rng.random_range(0..3);
        let order = &orders[rng.random_range(0..orders.len())];
        let amount = if rng.random_bool(0.75) { 1000 } else { 999 };
        let currency = if rng.random_bool(0.9) { "EUR" } else { "USD" };
        let mut told = fact(&format!(
            "{kind} tx-{name}-{transaction} {order} {amount} {currency}"
        ));
        told.livemode = rng.random_bool(0.95);
        let times = if rng.random_bool(0.3) { 2 } else { 1 };
        steps.extend(std::iter::repeat_n(Step::Tell(Box::new(told)), times));
    }
    steps.shuffle(rng);
    steps.truncate(8);
    steps
}

/// Every outcome that some order of the steps gives: a walk over (what is left, the book so far).
fn outcomes(steps: &[Step]) -> HashSet<Outcome> {
    let mut seen = HashSet::new();
    let mut open = vec![(0_u32, Book::new(true))];
    let mut ends = HashSet::new();
    while let Some((told, book)) = open.pop() {
        if !seen.insert((told, book.clone())) {
            continue;
        }
        if told.count_ones() as usize == steps.len() {
            ends.insert((
                book.orders().clone(),
                book.payments().clone(),
                book.exceptions().clone(),
            ));
            continue;
        }
        for (number, step) in steps
            .iter()
            .enumerate()
            .filter(|(number, _)| told & (1 << number) == 0)
        {
            let mut book = book.clone();
            match step {
                Step::Create(id) => {
                    let new = new_order(id.as_str(), 1000, "EUR");
                    book.create(&new.order_id, new.amount, new.currency);
                }
                Step::Cancel(id) => drop(book.operate(id, OrderEvent::Cancel)),
                Step::Tell(fact) => {
                    book.deliver(&fact.key, fact.livemode, &fact.content);
                }
            }
            open.push((told | (1 << number), book));
        }
    }
    ends
}

/// Batches of random size over one to four writers, creators and a canceller beside them.
async fn run(store: &Store, rng: &mut SmallRng, mut steps: Vec<Step>) {
    steps.shuffle(rng);
    let mut tasks: Vec<Vec<Work>> = vec![Vec::new(); rng.random_range(1..=4)];
    let writers = tasks.len();
    let (mut creators, mut canceller) = ([Vec::new(), Vec::new()], Vec::new());
    let mut batch = Vec::new();
    for step in steps {
        match step {
            Step::Create(id) => creators[rng.random_range(0..2)].push(Work::Create(id)),
            Step::Cancel(id) => canceller.push(Work::Cancel(id)),
            Step::Tell(fact) => {
                batch.push(*fact);
                if rng.random_bool(0.2) {
                    tasks[rng.random_range(0..writers)]
                        .push(Work::Record(std::mem::take(&mut batch)));
                }
            }
        }
    }
    tasks[0].push(Work::Record(batch));
    tasks.extend(creators);
    tasks.push(canceller);

    let barrier = Arc::new(Barrier::new(tasks.len()));
    let mut running = JoinSet::new();
    for work in tasks {
        let (store, barrier) = (store.clone(), barrier.clone());
        running.spawn(async move {
            barrier.wait().await;
            for item in work {
                item.run(&store).await;
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
}

#[derive(Debug, Clone)]
enum Work {
    Create(OrderId),
    Cancel(OrderId),
    Record(Vec<PaymentFact>),
}

impl Work {
    async fn run(self, store: &Store) {
        match self {
            Self::Create(id) => {
                store
                    .create_order(new_order(id.as_str(), 1000, "EUR"))
                    .await
                    .unwrap();
            }
            Self::Cancel(order_id) => {
                let operation = Operation {
                    order_id,
                    event: OrderEvent::Cancel,
                    source: Source::Api,
                    actor: "shop".to_owned(),
                    reason: None,
                    if_version: None,
                    refused_as: REFUSED_AS,
                };
                store.operate(operation).await.unwrap();
            }
            Self::Record(facts) => {
                let told = facts.len();
                let batch = Batch {
                    facts,
                    dead_letters: Vec::new(),
                };
                // Transient faults are the caller's to repeat: the keys make it a duplicate.
                let mut tries = 0;
                let verdicts = loop {
                    tries += 1;
                    match store.record_payments(batch.clone()).await {
                        Ok(verdicts) => break verdicts,
                        Err(error) => assert!(error.is_transient() && tries < 5, "{error:?}"),
                    }
                };
                assert_eq!(verdicts.len(), told);
            }
        }
    }
}

/// What the database holds about a group.
async fn outcome(store: &Store, steps: &[Step]) -> Outcome {
    let ids: BTreeSet<OrderId> = steps
        .iter()
        .map(|step| match step {
            Step::Create(id) | Step::Cancel(id) => id.clone(),
            Step::Tell(fact) => fact.content.order_id.clone(),
        })
        .collect();
    let (mut orders, mut payments, mut exceptions) =
        (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for id in ids {
        if let Some(order) = store.get_order(id.clone()).await.unwrap() {
            let paid_by = order.paid_by.map(|paid| PaymentKey {
                provider: paid.provider,
                transaction_id: paid.transaction_id,
                kind: order_fsm::PaymentKind::Succeeded,
            });
            let (status, amount, currency) = (order.status, order.amount, order.currency);
            orders.insert(
                id.clone(),
                BookOrder {
                    status,
                    amount,
                    currency,
                    version: order.version,
                    paid_by,
                },
            );
        }
        for payment in store
            .order_payments(id.clone(), Place::START, 100)
            .await
            .unwrap()
            .items
        {
            payments.insert(
                payment.key,
                BookPayment {
                    content: payment.content,
                    verdict: payment.verdict,
                },
            );
        }
        exceptions.extend(exceptions_of(store, id).await);
    }
    (orders, payments, exceptions)
}

async fn exceptions_of(store: &Store, order_id: OrderId) -> Vec<ExceptionKey> {
    const EXCEPTIONS: Sql = Sql::both(
        "SELECT verdict, transaction_id, kind, amount, currency FROM payment_exceptions WHERE order_id = $1",
    );
    let rows = store.read(
        "testing",
        order_id.clone(),
        async |conn: &mut Conn, id: &OrderId| {
            fetch_all!(
                conn,
                (String, String, String, i64, String),
                EXCEPTIONS,
                id.as_str()
            )
        },
    );
    rows.await
        .unwrap()
        .into_iter()
        .map(
            |(verdict, transaction, kind, amount, currency)| ExceptionKey {
                verdict: verdict.parse().unwrap(),
                payment: key(&transaction, &kind),
                content: content(order_id.as_str(), amount, &currency),
            },
        )
        .collect()
}
