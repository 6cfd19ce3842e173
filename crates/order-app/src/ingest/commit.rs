//! Gets a batch committed, whatever happens on the way, and acks it.
//!
//! If a part of a batch fails, the batch is halved until the failing messages are found, and the
//! rest is recorded and acked. A single message becomes a dead letter if the database refuses its
//! data; otherwise it is held (see `hold`). If the database as a whole is at fault, pulling stops,
//! and the same part is tried again until it is recorded.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use order_store::{Batch, Error, Recorded, Scope, crash};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hold::{NotHeld, Obstacle};
use super::outcome::{self, Outcome};
use super::progress::Progress;
use super::stall::Stall;
use super::{Entry, Ingest, Item, trail};
use crate::clock;
use crate::nats::ACK_WAIT;
use crate::pause::{Backoff, pause};
use crate::payment_event::{NotUnderstood, Reason};
use crate::telemetry::chain;

/// When the broker redelivers a message that can't be held.
const RETURNED_FOR: Duration = ACK_WAIT;

/// How long a running call may take when the service stops; then its messages are returned. If they
/// are committed after all, they are duplicates for the next instance.
const STOP_GRACE: Duration = Duration::from_millis(800);

impl Ingest {
    /// Records messages and acks them, however long that takes. Returns the rest when the service stops
    /// first.
    ///
    /// Meanwhile, the messages in hand are kept in progress, or all held messages if these are held ones.
    pub(super) async fn commit(
        &self,
        entries: Vec<Entry>,
        are_held: bool,
        shutdown: &CancellationToken,
    ) -> Vec<Entry> {
        let mut parts = vec![entries];
        let mut progress = Progress::new();
        let mut backoff = Backoff::new();
        let mut stall = Stall::none(&self.stalls);
        while let Some(part) = parts.pop() {
            let in_hand = |part: &[Entry]| {
                if are_held {
                    self.held.acks()
                } else {
                    acks(parts.iter().flatten().chain(part))
                }
            };
            let begun = Instant::now();
            let attempt = self.attempt(&part);
            let recorded = tokio::select! {
                biased;
                recorded = self.keep_in_progress(&mut progress, || in_hand(&part), attempt) => recorded,
                () = stopped(shutdown) => {
                    parts.push(part);
                    break;
                }
            };
            let error = match recorded {
                Ok(recorded) => {
                    stall.end();
                    backoff.reset();
                    self.size.recorded(part.len(), begun.elapsed());
                    self.conclude(part, recorded).await;
                    continue;
                }
                Err(error) => error,
            };
            let scope = self.scope(&error).await;
            if scope == Scope::Whole {
                stall.begin(&error, part.len());
                let waited = pause(shutdown, backoff.next());
                self.keep_in_progress(&mut progress, || in_hand(&part), waited)
                    .await;
                parts.push(part);
                if shutdown.is_cancelled() {
                    break;
                }
                continue;
            }
            if scope == Scope::Slow {
                self.size.too_slow(part.len());
            }
            if shutdown.is_cancelled() {
                parts.push(part);
                break;
            }
            self.narrow_down(part, error, scope, &mut parts).await;
        }
        parts.into_iter().flatten().collect()
    }

    /// How far a failure reaches. A ping shows whether a missed deadline is due to a large batch or to a
    /// silent server.
    async fn scope(&self, error: &Error) -> Scope {
        match error.scope() {
            Scope::Slow if self.store.ping().await.is_err() => Scope::Whole,
            scope => scope,
        }
    }

    /// Divides a part that can't be recorded as it is, while others can.
    async fn narrow_down(
        &self,
        mut part: Vec<Entry>,
        error: Error,
        scope: Scope,
        parts: &mut Vec<Vec<Entry>>,
    ) {
        tracing::debug!(
            error = %chain(&error), messages = part.len(),
            "part of a batch not recorded; it is divided"
        );
        if part.len() > 1 {
            let is_letter = |entry: &Entry| matches!(entry.item, Item::Letter(_));
            let letters = part.iter().filter(|entry| is_letter(entry)).count();
            if letters == part.len() && scope == Scope::Part {
                // They all go into one table and touch no other row: what refuses one refuses all.
                let obstacle = Obstacle::of(error);
                self.hold(part.into_iter().map(|letter| (letter, obstacle.clone())))
                    .await;
            } else if letters > 0 && letters < part.len() {
                let (letters, facts) = part.into_iter().partition(is_letter);
                parts.extend([letters, facts]);
            } else {
                let right = part.split_off(part.len() / 2);
                parts.extend([right, part]);
            }
            return;
        }
        let Some(Entry { message, item }) = part.pop() else {
            return;
        };
        match item {
            Item::Fact(_) if scope == Scope::Data => {
                let cause = chain(&error);
                tracing::error!(
                    stream.sequence = message.sequence,
                    error = cause,
                    "message refused by the database; it becomes a dead letter"
                );
                let fault = NotUnderstood::new(Reason::RefusedByDatabase, cause);
                let item = Item::Letter(message.letter(&fault));
                parts.push(vec![Entry { message, item }]);
            }
            item => {
                let entry = Entry { message, item };
                self.hold([(entry, Obstacle::of(error))]).await;
            }
        }
    }

    /// Holds messages back. Messages that can't be held return to the broker.
    async fn hold(&self, entries: impl IntoIterator<Item = (Entry, Obstacle)>) {
        let (mut full, mut closed) = (Vec::new(), Vec::new());
        for (entry, obstacle) in entries {
            let ack_to = entry.message.ack_to.clone();
            match self.held.put(entry, &obstacle, Instant::now()) {
                Ok(()) => {}
                Err(NotHeld::Full) => full.push(ack_to),
                Err(NotHeld::Closed) => closed.push(ack_to),
            }
        }
        if !full.is_empty() {
            tracing::error!(
                messages = full.len(),
                "messages returned to the broker for 30 s: no more can be held"
            );
        }
        self.notify(&full, AckKind::Nak(Some(RETURNED_FOR))).await;
        self.notify(&closed, AckKind::Nak(None)).await;
    }

    /// One call to the store.
    async fn attempt(&self, part: &[Entry]) -> Result<Vec<Recorded>, Error> {
        let mut batch = Batch::default();
        for entry in part {
            match &entry.item {
                Item::Fact(fact) => batch.facts.push(fact.clone()),
                Item::Letter(letter) => batch.dead_letters.push(letter.clone()),
            }
        }
        self.store.record_each(batch).await
    }

    /// Acks what is committed and holds the rest.
    async fn conclude(&self, part: Vec<Entry>, recorded: Vec<Recorded>) {
        let committed_at = clock::now();
        let mut recorded = recorded.into_iter();
        let mut committed = Vec::with_capacity(part.len());
        let mut outcomes = Vec::with_capacity(part.len());
        let mut held = Vec::new();
        for entry in part {
            let outcome = match entry.item {
                Item::Fact(_) => recorded
                    .next()
                    .map(|recorded| recorded.map(Outcome::Payment)),
                Item::Letter(_) => Some(Ok(Outcome::DeadLetter)),
            };
            match outcome {
                Some(Ok(outcome)) => {
                    committed.push(entry);
                    outcomes.push(outcome);
                }
                Some(Err(error)) => held.push((entry, Obstacle::Row(error))),
                // The store answers for each fact; without an answer, nothing is acked.
                None => {}
            }
        }
        trail::committed(&committed, &outcomes);
        crash::point("ingest:before-acks");
        self.ack(&committed).await;
        crash::point("ingest:after-acks");
        self.held.release(&committed, Instant::now());
        outcome::count(&committed, &outcomes, committed_at);
        self.hold(held).await;
    }
}

fn acks<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
    entries.map(|entry| entry.message.ack_to.clone()).collect()
}

async fn stopped(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    tokio::time::sleep(STOP_GRACE).await;
}
