use std::time::Duration;

use super::*;
use crate::ingest::message::Incoming;

fn held() -> (Held, Health) {
    let health = Health::default();
    health.set_database(true);
    health.set_broker(true);
    (Held::new(health.clone()), health)
}

fn entry(sequence: u64, bytes: usize) -> Entry {
    Entry {
        message: Incoming::for_tests(sequence, vec![b'x'; bytes]),
        item: Item::Letter(order_store::NewDeadLetter {
            stream: "PAYMENTS".to_owned(),
            subject: "payments.events.acme".to_owned(),
            sequence,
            headers: String::new(),
            body: Vec::new(),
            reason: "invalid-json",
            detail: String::new(),
        }),
    }
}

fn row(id: &str) -> Obstacle {
    Obstacle::of(order_store::Error::Inconsistent {
        table: "orders",
        column: "currency",
        id: id.to_owned(),
        source: "must be upper case".into(),
    })
}

fn refusal(words: &str) -> Obstacle {
    Obstacle::Refusal(words.to_owned())
}

fn sequences(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.message.sequence).collect()
}

const LATER: Duration = Duration::from_mins(1);

#[test]
fn rows_are_tried_together_and_refusals_with_the_same_words_one_at_a_time() {
    let (held, _) = held();
    let now = Instant::now();
    for (sequence, obstacle) in [
        (3, row("O1")),
        (1, row("O2")),
        (2, refusal("no right")),
        (4, refusal("no right")),
        (5, refusal("a lock")),
        (6, refusal("no right")),
    ] {
        held.put(entry(sequence, 1), &obstacle, now).unwrap();
    }
    assert_eq!(sequences(&held.due(100, now)), [0; 0]);
    let due = held.due(100, now + LATER);
    assert_eq!(sequences(&due), [1, 2, 3, 5]);
    // They are being tried: the next one of the same words has its turn.
    assert_eq!(sequences(&held.due(100, now + LATER)), [4]);
    // The right is granted again: all that it refused is tried.
    held.release(&[entry(2, 1)], now + LATER);
    held.untried(&[entry(4, 1)], now);
    assert_eq!(sequences(&held.due(100, now + LATER)), [4, 6]);
    assert_eq!(held.acks().len(), 5);
}

#[test]
fn pauses_grow_until_something_else_holds_the_message_back() {
    let (held, _) = held();
    let now = Instant::now();
    let mut pauses = Vec::new();
    for obstacle in ["O1", "O1", "O1", "O1", "O1", "O1", "O2"].map(row) {
        held.put(entry(1, 1), &obstacle, now).unwrap();
        pauses.push((held.next_due().unwrap() - now).as_millis());
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000, 500]);
    assert_eq!(held.acks().len(), 1);
}

#[test]
fn as_many_as_can_be_are_held_and_readiness_says_so() {
    let (held, health) = held();
    let now = Instant::now();
    assert!(health.ready());
    for sequence in 0..HELD_MAX as u64 {
        held.put(entry(sequence, 1), &row("O1"), now).unwrap();
    }
    let one_more = held.put(entry(HELD_MAX as u64, 1), &row("O1"), now);
    assert_eq!(one_more, Err(NotHeld::Full));
    // One that is held already is held on.
    held.put(entry(7, 1), &row("O1"), now).unwrap();
    let because = health.not_ready_because();
    let [(Cause::HeldMessages, why)] = &because[..] else {
        panic!("{because:?}")
    };
    assert!(why.starts_with("5000 message(s) are held back"), "{why}");
    assert!(why.contains("no more can be held"), "{why}");
    held.release(&[entry(7, 1)], now);
    held.put(entry(HELD_MAX as u64, 1), &row("O1"), now)
        .unwrap();
}

#[test]
fn large_messages_fill_it_up_as_well() {
    let (held, _) = held();
    let now = Instant::now();
    let half = HELD_BYTES_MAX / 2;
    held.put(entry(1, half), &row("O1"), now).unwrap();
    held.put(entry(1, half), &row("O1"), now).unwrap();
    held.put(entry(2, half), &row("O1"), now).unwrap();
    assert_eq!(held.put(entry(3, 1), &row("O1"), now), Err(NotHeld::Full));
    held.release(&[entry(1, half)], now);
    held.put(entry(3, 1), &row("O1"), now).unwrap();
}

#[test]
fn a_service_that_stops_holds_nothing() {
    let (held, health) = held();
    let now = Instant::now();
    for sequence in 1..=3 {
        held.put(entry(sequence, 1), &row("O1"), now).unwrap();
    }
    assert_eq!(held.close().len(), 3);
    assert_eq!(held.put(entry(4, 1), &row("O1"), now), Err(NotHeld::Closed));
    assert!(held.acks().is_empty());
    assert!(health.ready());
}
