//! Holds messages that can't be recorded now while others can: keeps them in progress, tries them
//! again, counts and logs them.
//!
//! A message is held back by a row that can't be read, by a lock that another client keeps, or by a
//! missing right. When that is over, the message is recorded within seconds. Beyond the limits,
//! messages are returned to the broker for 30 s, so nothing is lost and pulling goes on.

mod obstacle;
mod retry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, gauge};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Entry, Ingest, Item};
use crate::health::{Cause, Health};
use crate::lock::lock;

pub(super) use obstacle::Obstacle;

const HELD: &str = "orderd_held_messages";
const RETURNED: &str = "orderd_held_returned_total";

/// The most messages that are held, far below the 50,000 that a consumer may have unacked.
const HELD_MAX: usize = 5_000;

/// The most bytes of their bodies together.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The pauses between attempts.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The held messages of an instance. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Held {
    state: Arc<Mutex<State>>,
    health: Health,
    /// Notified when there may be something to try.
    pub(super) changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// By their sequence in the stream, so that a redelivered message replaces itself.
    messages: BTreeMap<u64, HeldMessage>,
    bytes: usize,
    /// Whether the service is stopping: nothing is held any more.
    is_closed: bool,
}

#[derive(Debug)]
struct HeldMessage {
    entry: Entry,
    words: String,
    is_refusal: bool,
    pause: Duration,
    /// `None` while it is being tried.
    due: Option<Instant>,
}

/// Why a message can't be held.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotHeld {
    /// The limits are reached: the broker is to redeliver it after 30 s.
    Full,
    /// The service is stopping: the broker is to redeliver it to another instance at once.
    Closed,
}

impl Held {
    pub(super) fn new(health: Health) -> Self {
        Self {
            state: Arc::default(),
            health,
            changed: Arc::default(),
        }
    }

    /// Holds a message back, or continues to hold it after another attempt.
    pub(super) fn put(
        &self,
        entry: Entry,
        obstacle: &Obstacle,
        now: Instant,
    ) -> Result<(), NotHeld> {
        let mut state = self.state();
        if state.is_closed {
            return Err(NotHeld::Closed);
        }
        let sequence = entry.message.sequence;
        let before = state.take(sequence);
        let bytes = entry.bytes();
        if before.is_none()
            && (state.messages.len() >= HELD_MAX || state.bytes + bytes > HELD_BYTES_MAX)
        {
            drop(state);
            counter!(RETURNED).increment(1);
            return Err(NotHeld::Full);
        }
        let words = obstacle.words();
        let pause = match &before {
            Some(before) if before.words == words => (before.pause * 2).min(PAUSE_MAX),
            _ => {
                obstacle.log(&entry);
                PAUSE_MIN
            }
        };
        state.bytes += bytes;
        let held = HeldMessage {
            entry: entry.compact(),
            words,
            is_refusal: matches!(obstacle, Obstacle::Refusal(_)),
            pause,
            due: Some(now + pause),
        };
        state.messages.insert(sequence, held);
        self.show(&state);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// The messages that are due, in the order of the stream. Of several that were refused with the
    /// same error, only one.
    pub(super) fn due(&self, max: usize, now: Instant) -> Vec<Entry> {
        let mut state = self.state();
        let mut refusals = HashSet::new();
        let mut due = Vec::new();
        for held in state.messages.values_mut() {
            let is_due = held.due.is_some_and(|at| at <= now);
            if due.len() < max
                && is_due
                && (!held.is_refusal || refusals.insert(held.words.clone()))
            {
                held.due = None;
                due.push(held.entry.clone());
            }
        }
        due
    }

    /// When the next message is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let state = self.state();
        state.messages.values().filter_map(|held| held.due).min()
    }

    /// Releases messages that are recorded. Messages that were refused with the same error are tried at once.
    pub(super) fn release(&self, entries: &[Entry], now: Instant) {
        let mut state = self.state();
        if state.messages.is_empty() {
            return;
        }
        let released: Vec<HeldMessage> = entries
            .iter()
            .filter_map(|entry| state.take(entry.message.sequence))
            .collect();
        if released.is_empty() {
            return;
        }
        let over: HashSet<&str> = released
            .iter()
            .filter(|held| held.is_refusal)
            .map(|held| held.words.as_str())
            .collect();
        for held in state.messages.values_mut() {
            if held.is_refusal && held.due.is_some() && over.contains(held.words.as_str()) {
                held.is_refusal = false;
                held.due = Some(now);
            }
        }
        tracing::info!(
            messages = released.len(),
            left = state.messages.len(),
            "held messages recorded"
        );
        self.show(&state);
        drop(state);
        self.changed.notify_one();
    }

    /// Makes messages due again whose attempt was not finished.
    pub(super) fn untried(&self, entries: &[Entry], now: Instant) {
        let mut state = self.state();
        for entry in entries {
            if let Some(held) = state.messages.get_mut(&entry.message.sequence) {
                held.due = Some(now + held.pause);
            }
        }
    }

    /// The ack subjects of all held messages.
    pub(super) fn acks(&self) -> Vec<String> {
        let state = self.state();
        let held = state.messages.values();
        held.map(|held| held.entry.message.ack_to.clone()).collect()
    }

    /// Stops holding messages; returns the ack subjects of those that were held.
    pub(super) fn close(&self) -> Vec<String> {
        let acks = self.acks();
        let mut state = self.state();
        *state = State {
            is_closed: true,
            ..State::default()
        };
        self.show(&state);
        acks
    }

    fn show(&self, state: &State) {
        let held = state.messages.len();
        #[expect(clippy::cast_precision_loss, reason = "a gauge of a bounded count")]
        gauge!(HELD).set(held as f64);
        if held == 0 {
            self.health.clear_cause(Cause::HeldMessages);
            return;
        }
        let full = if held >= HELD_MAX || state.bytes >= HELD_BYTES_MAX {
            "; no more can be held, and others are returned to the broker for 30 s"
        } else {
            ""
        };
        let why = format!(
            "{held} message(s) are held back: the database refuses them, or rows that they are about can't be read; \
             the log names them{full}"
        );
        self.health.set_cause(Cause::HeldMessages, why);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn take(&mut self, sequence: u64) -> Option<HeldMessage> {
        let held = self.messages.remove(&sequence)?;
        self.bytes = self.bytes.saturating_sub(held.entry.bytes());
        Some(held)
    }
}

impl Entry {
    /// The bytes that it takes to hold it.
    fn bytes(&self) -> usize {
        let letter = match &self.item {
            Item::Fact(_) => 0,
            Item::Letter(letter) => letter.body.len() + letter.headers.len(),
        };
        self.message.body.len() + letter
    }

    /// A copy that doesn't keep the client's whole read buffer in memory.
    fn compact(mut self) -> Self {
        self.message.body = bytes::Bytes::copy_from_slice(&self.message.body);
        self
    }
}

/// Describes the metrics of held messages and shows them from the start, at zero.
pub(super) fn describe_metrics() {
    describe_gauge!(
        HELD,
        "Messages that can't be recorded now and are kept in progress"
    );
    describe_counter!(
        RETURNED,
        "Messages returned to the broker for 30 s because no more could be held"
    );
    gauge!(HELD).set(0.0);
    counter!(RETURNED).increment(0);
}
