//! What was seen of writing: whether the database takes it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::WriteRefusal;

/// How long a refusal counts. A small write may succeed where a larger one finds no room, so the next real one decides;
/// without readiness there may be none, so it is let through from time to time.
const REFUSAL_COUNTS: Duration = Duration::from_secs(10);

/// What was seen of writing, by all stores of a process.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    moved: AtomicU64,
    refused: Mutex<Option<(Instant, WriteRefusal)>>,
}

impl Writes {
    /// A transaction that moved orders was committed.
    pub(crate) fn moved(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
        *self.lock() = None;
    }

    pub(crate) fn refused(&self, refusal: WriteRefusal) {
        *self.lock() = Some((Instant::now(), refusal));
    }

    /// How many transactions that moved orders were committed.
    pub(crate) fn moves(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// The last refusal, unless it is too long ago.
    pub(crate) fn refusal(&self) -> Option<WriteRefusal> {
        let (at, refusal) = (*self.lock())?;
        (at.elapsed() < REFUSAL_COUNTS).then_some(refusal)
    }

    /// A write was accepted, and it may have been a small one.
    pub(crate) fn tried(&self) {
        let mut refused = self.lock();
        if matches!(*refused, Some((_, WriteRefusal::ReadOnly))) {
            *refused = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, WriteRefusal)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
