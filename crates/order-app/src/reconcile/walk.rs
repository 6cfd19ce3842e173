//! Walks through the payments that wait for their order. There may be very many of them, for ever:
//! each statement reads a bounded number, and so does each scheduled run.

use std::sync::{Arc, Mutex};

use order_store::{Run, StartedBy, Store, WaitingKey, WaitingRange};
use tokio_util::sync::CancellationToken;

use super::{Failure, Reconciler, going_on};
use crate::lock::lock;

/// The waiting payments that one statement reads.
pub(crate) const STEP: u32 = 5000;

/// The most steps of a walk in one run; the next run continues there.
pub(crate) const STEPS_MAX: u32 = 20;

/// How far a walk got; shared by the runs of a process. A new process starts from the beginning.
#[derive(Debug, Clone, Default)]
pub struct Walk(Arc<Mutex<Option<WaitingKey>>>);

/// The walks of a reconciler.
#[derive(Debug, Clone, Default)]
pub struct Walks {
    pub(super) settle: Walk,
    pub(super) age: Walk,
}

impl Walk {
    /// Takes the place to continue at.
    pub(crate) fn take(&self) -> Option<WaitingKey> {
        lock(&self.0).take()
    }

    /// Sets the place to continue at.
    pub(crate) fn put(&self, place: Option<WaitingKey>) {
        *lock(&self.0) = place;
    }
}

/// The ranges of a walk, one after the other.
pub(super) struct Ranges<'a> {
    store: &'a Store,
    walk: &'a Walk,
    /// Whether it goes through all of them, because a person started this run.
    whole: bool,
    after: Option<WaitingKey>,
    steps: u32,
    is_over: bool,
}

impl Reconciler {
    /// Begins a walk, or continues it.
    pub(super) fn walk<'a>(&'a self, run: &Run, walk: &'a Walk) -> Ranges<'a> {
        let whole = run.dry_run || run.started_by != StartedBy::Schedule;
        Ranges {
            store: &self.store,
            walk,
            whole,
            after: if whole { None } else { walk.take() },
            steps: 0,
            is_over: false,
        }
    }
}

impl Ranges<'_> {
    /// The next range, if there is one in this run.
    pub(super) async fn next(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<Option<WaitingRange>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        going_on(stop)?;
        let range = self.store.waiting_range(self.after.take(), STEP).await?;
        self.steps += 1;
        self.after.clone_from(&range.until);
        self.is_over = self.after.is_none();
        if !self.whole && self.steps == STEPS_MAX {
            self.walk.put(self.after.take());
            self.is_over = true;
        }
        Ok(Some(range))
    }
}
