//! What is sent when, and what becomes of the rest.

use std::collections::HashSet;
use std::path::PathBuf;

use order_store::{
    AsideKind, Batch as Facts, Fate, NewOrder, OutboxEvent, OutboxPlace, PaymentFact, Source,
    Store, StoreOptions,
};
use tokio::time::Instant;

use super::super::batch::{Batch, Next};
use super::super::subjects::Subjects;

/// A database with orders, each of them paid if its name begins with `P`, and a mismatch for every name that
/// begins with `X`.
struct Backlog {
    store: Store,
    folder: PathBuf,
}

impl Backlog {
    async fn of(orders: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(order_testkit::unique_name("orderd_relay"));
        std::fs::create_dir_all(&folder).unwrap();
        let url = format!("sqlite://{}", folder.join("orderd.db").display());
        let store = Store::open(&url.parse().unwrap(), StoreOptions::default());
        store.migrate().await.unwrap();
        for id in orders {
            let new = NewOrder {
                order_id: id.parse().unwrap(),
                amount: 1000.try_into().unwrap(),
                currency: "EUR".parse().unwrap(),
                pay_by: None,
                actor: "shop".to_owned(),
            };
            store.create_order(new).await.unwrap();
            let amount = match &id[..1] {
                "P" => 1000,
                "X" => 999,
                _ => continue,
            };
            let facts = vec![fact(id, amount)];
            let batch = Facts {
                facts,
                dead_letters: Vec::new(),
            };
            store.record_payments(batch).await.unwrap();
        }
        Self { store, folder }
    }

    async fn events(&self) -> Vec<OutboxEvent> {
        let page = self.store.outbox_page(OutboxPlace::default()).await;
        page.unwrap().events
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn fact(order_id: &str, amount: i64) -> PaymentFact {
    PaymentFact {
        key: order_fsm::PaymentKey {
            provider: "acme".parse().unwrap(),
            transaction_id: format!("tx-{order_id}").parse().unwrap(),
            kind: "succeeded".parse().unwrap(),
        },
        event_id: None,
        content: order_fsm::Content {
            order_id: order_id.parse().unwrap(),
            amount: amount.try_into().unwrap(),
            currency: "EUR".parse().unwrap(),
        },
        occurred_at: time::macros::datetime!(2026-11-29 08:00 UTC),
        livemode: true,
        source: Source::Event,
    }
}

/// What is sent now, as `order/token`, on the subjects that are open.
fn sent(batch: &mut Batch, subjects: &Subjects) -> Vec<(usize, String)> {
    let mut sent = Vec::new();
    while let Some(Next { chain, outgoing }) = batch.next(|token| subjects.is_open(token)) {
        let key = outgoing.key.to_string();
        let order = key.split('/').next().unwrap_or_default();
        let name = if outgoing.token == "payment_exception" {
            "exception".to_owned()
        } else {
            format!("{order}/{}", outgoing.token)
        };
        sent.push((chain, name));
    }
    sent
}

fn names(sent: &[(usize, String)]) -> Vec<&str> {
    sent.iter().map(|(_, name)| name.as_str()).collect()
}

/// The fates in short.
fn fates(batch: &Batch, subjects: &Subjects) -> Vec<String> {
    let short = |fate: &Fate| match fate {
        Fate::Published => "published".to_owned(),
        Fate::Kept => "kept".to_owned(),
        Fate::SetAside {
            kind, event, tried, ..
        } => format!("{kind} {event}{}", if *tried { " tried" } else { "" }),
    };
    batch.fates(subjects).iter().map(short).collect()
}

fn closed(tokens: &[&'static str]) -> Subjects {
    let mut subjects = Subjects::default();
    for token in tokens {
        subjects.close(token, "denied".to_owned(), Instant::now());
    }
    subjects
}

#[tokio::test]
async fn of_an_order_one_event_is_sent_after_the_ack_of_the_one_before() {
    let backlog = Backlog::of(&["P1", "O2"]).await;
    let (events, open) = (backlog.events().await, Subjects::default());
    let mut batch = Batch::new(&events, &HashSet::new());
    let first = sent(&mut batch, &open);
    assert_eq!(names(&first), ["P1/created", "O2/created"]);
    assert!(sent(&mut batch, &open).is_empty());
    assert_eq!(batch.acknowledged(first[0].0), 0);
    let second = sent(&mut batch, &open);
    assert_eq!(names(&second), ["P1/paid"]);
    assert_eq!(batch.acknowledged(second[0].0), 1);
    assert_eq!(fates(&batch, &open), ["published", "published", "kept"]);
    assert_eq!(batch.published().count(), 2);
}

#[tokio::test]
async fn subjects_take_turns_and_a_full_one_leaves_room_for_the_others() {
    let backlog = Backlog::of(&["O1", "O2", "X3", "X4"]).await;
    let events = backlog.events().await;
    let mut batch = Batch::new(&events, &HashSet::new());
    let open = Subjects::default();
    let tokens: Vec<String> = sent(&mut batch, &open)
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    assert_eq!(
        tokens,
        [
            "O1/created",
            "exception",
            "O2/created",
            "exception",
            "X3/created",
            "X4/created"
        ]
    );
    let mut batch = Batch::new(&events, &HashSet::new());
    let full = batch.next(|token| token != "created").unwrap();
    assert_eq!(full.outgoing.token, "payment_exception");
}

#[tokio::test]
async fn a_closed_subject_stops_its_events_and_what_waits_for_them_and_nothing_else() {
    let backlog = Backlog::of(&["P1", "X2", "O3"]).await;
    let events = backlog.events().await;
    let mut batch = Batch::new(&events, &HashSet::new());
    // The first one is on its way when the subject is closed.
    let first = batch.next(|_| true).unwrap();
    batch.unacknowledged(first.chain);
    let closed = closed(&["created"]);
    let rest = sent(&mut batch, &closed);
    assert_eq!(names(&rest), ["exception"]);
    batch.acknowledged(rest[0].0);
    assert_eq!(
        fates(&batch, &closed),
        [
            "blocked created tried",
            "waits paid",
            "blocked created",
            "published",
            "blocked created"
        ]
    );
}

#[tokio::test]
async fn without_a_subject_to_blame_everything_stays() {
    let backlog = Backlog::of(&["P1", "X2"]).await;
    let (events, open) = (backlog.events().await, Subjects::default());
    let mut batch = Batch::new(&events, &HashSet::new());
    for (chain, _) in sent(&mut batch, &open) {
        batch.unacknowledged(chain);
    }
    assert_eq!(fates(&batch, &open), ["kept"; 4]);
}

#[tokio::test]
async fn what_is_too_large_or_unreadable_is_set_aside_with_what_waits_for_it() {
    let backlog = Backlog::of(&["P1", "P2"]).await;
    let mut events = backlog.events().await;
    events[2].body = Err(order_store::Error::Inconsistent {
        table: "outbox",
        column: "content",
        id: "P2".to_owned(),
        source: "damaged".into(),
    });
    let open = Subjects::default();
    let mut batch = Batch::new(&events, &HashSet::new());
    let first = sent(&mut batch, &open);
    assert_eq!(names(&first), ["P1/created"]);
    batch.too_large(first[0].0, "max_payload".to_owned());
    assert_eq!(
        fates(&batch, &open),
        [
            "too-large created",
            "waits paid",
            "unreadable unknown",
            "waits paid"
        ]
    );
}

#[tokio::test]
async fn events_of_an_order_that_is_set_aside_wait_there() {
    let backlog = Backlog::of(&["P1", "O2"]).await;
    let (events, open) = (backlog.events().await, Subjects::default());
    let set_aside = HashSet::from(["P1".to_owned()]);
    let mut batch = Batch::new(&events, &set_aside);
    assert_eq!(names(&sent(&mut batch, &open)), ["O2/created"]);
    assert_eq!(
        fates(&batch, &open),
        ["waits created", "waits paid", "kept"]
    );
    assert_eq!(AsideKind::Waits.to_string(), "waits");
}
