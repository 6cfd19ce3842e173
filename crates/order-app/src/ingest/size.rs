//! How many messages a batch may have: fewer while the database is slow, more again when it isn't.
//!
//! The size is halved after a batch that took too long, and doubled after a full one that was fast.
//! A size that has just failed is never tried again at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The most messages in one batch, and so in one transaction.
pub(super) const BATCH_MAX: usize = 2000;

/// A full batch that takes less than this makes the next one larger: twice as many are far from any limit.
const FAST: Duration = Duration::from_secs(1);

/// A batch that takes more than this makes the next one smaller, before it reaches the time limits
/// of a statement (5 s) or a transaction (15 s).
const SLOW: Duration = Duration::from_secs(4);

/// The size of batches, shared by the workers.
#[derive(Debug, Clone)]
pub(super) struct BatchSize(Arc<AtomicUsize>);

impl Default for BatchSize {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(BATCH_MAX)))
    }
}

impl BatchSize {
    /// How many messages a batch may have now.
    pub(super) fn max(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A batch was recorded.
    pub(super) fn recorded(&self, messages: usize, took: Duration) {
        let max = self.max();
        if took > SLOW {
            self.too_slow(messages);
        } else if took < FAST && messages >= max && max < BATCH_MAX {
            self.set((max * 2).min(BATCH_MAX));
        }
    }

    /// A batch could not be recorded in time.
    pub(super) fn too_slow(&self, messages: usize) {
        self.set((messages / 2).clamp(1, self.max()));
    }

    fn set(&self, max: usize) {
        let before = self.0.swap(max, Ordering::Relaxed);
        if before != max {
            tracing::debug!(before, max, "batch size changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_shrink_when_they_are_slow_and_grow_when_they_are_full_and_fast() {
        const MS: Duration = Duration::from_millis(1);
        let size = BatchSize::default();
        for (messages, took, expect) in [
            (2000, Some(30 * MS), 2000),
            (2000, None, 1000),
            // This one was pulled before.
            (1000, None, 500),
            (500, Some(4100 * MS), 250),
            // Neither slow nor fast.
            (250, Some(2000 * MS), 250),
            // Not full: that a larger one would be fast isn't known.
            (249, Some(10 * MS), 250),
            (250, Some(10 * MS), 500),
            (500, Some(10 * MS), 1000),
            (1000, Some(10 * MS), 2000),
            (2000, Some(10 * MS), 2000),
            (3, None, 1),
            (1, None, 1),
            (1, Some(10 * MS), 2),
        ] {
            match took {
                Some(took) => size.recorded(messages, took),
                None => size.too_slow(messages),
            }
            assert_eq!(size.max(), expect, "{messages} messages in {took:?}");
        }
    }
}
