//! Whether recording is stalled, for readiness: one worker that can't record anything is enough.

use std::sync::{Arc, Mutex};

use order_store::Error;

use crate::health::{Cause, Health};
use crate::lock::lock;
use crate::telemetry::chain;

/// The number of stalled workers. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Stalls {
    count: Arc<Mutex<usize>>,
    health: Health,
}

impl Stalls {
    pub(super) fn new(health: Health) -> Self {
        Self {
            count: Arc::default(),
            health,
        }
    }

    fn add(&self, difference: isize) {
        let mut count = lock(&self.count);
        *count = count.saturating_add_signed(difference);
        if *count == 0 {
            self.health.clear_cause(Cause::RecordingStalled);
        } else {
            // The next probe finds out whether the database answers.
            self.health.set_database(false);
            self.health.set_cause(
                Cause::RecordingStalled,
                "payments can't be recorded: the database fails; the log says why",
            );
        }
    }
}

/// A worker that may be stalled; dropping this ends the stall.
pub(super) struct Stall<'a> {
    stalls: &'a Stalls,
    is_on: bool,
}

impl<'a> Stall<'a> {
    pub(super) fn none(stalls: &'a Stalls) -> Self {
        Self {
            stalls,
            is_on: false,
        }
    }

    pub(super) fn begin(&mut self, error: &Error, messages: usize) {
        tracing::warn!(
            error = %chain(error),
            messages,
            "batch not recorded: the database failed; pulling stops until it is recorded"
        );
        if !self.is_on {
            self.is_on = true;
            self.stalls.add(1);
        }
    }

    pub(super) fn end(&mut self) {
        if self.is_on {
            self.is_on = false;
            self.stalls.add(-1);
        }
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
