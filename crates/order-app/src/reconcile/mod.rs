//! The compensating job: asks the payment service about orders that should be settled by now.
//!
//! A run takes no input and keeps no memory but rows: what it doesn't reach, the next one does. It
//! decides nothing about payments: answers are told to the store as facts like any other, and the
//! store judges, cancels and schedules. One run at a time by a lease, which is an economy; nothing
//! is wrong if two work at once.
//!
//! Enter at [`Reconciler::carry_out`]; `ask` is how an unreadable reply is narrowed down.

mod ask;
mod batch;
mod beat;
mod schedule;
mod tally;
#[cfg(test)]
mod tests;

use std::time::Duration;

use order_store::{Run, RunStart, RunState, StartedBy, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hex::random_id;
use crate::payment_service::PaymentService;
use crate::telemetry::chain;
use ask::Patience;
use tally::Tally;

pub use schedule::serve;
pub use tally::describe_metrics;

/// How long a run is believed to live without a sign of life.
const LEASE_TTL: Duration = Duration::from_secs(30);

/// Due orders read, asked about and stepped at once.
const BATCH: usize = crate::payment_service::ORDERS_MAX;

/// Batches at work at once: while one is at the payment service, the other is at the database.
const BATCHES: usize = 3;

/// Orders settled, or payments aged, in one transaction.
const CHORE_MAX: u32 = 1000;

/// Rows of a kind that are forgotten in one run.
const FORGET_MAX: u64 = 20_000;

/// The job, ready to run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reconciler {
    /// What the job works on.
    pub store: Store,
    /// Who is asked, if there is anybody.
    pub service: Option<PaymentService>,
    /// How long a payment waits for its order before a person is told.
    pub wait_for_order: Duration,
    /// How long what is closed is kept.
    pub keep: Duration,
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] order_store::Error),
    /// The payment service gave no reply for too long.
    #[error("the payment service gives no replies; the rest is left to the next run")]
    NoReplies,
    /// The payment service wants to be left alone, for this time.
    #[error("the payment service is not to be asked for {0:?}; what is due stays due")]
    NotToBeAsked(Duration),
    /// Another run took this one for dead.
    #[error("another run has taken over")]
    LeaseLost,
    /// The process stops.
    #[error("stopped before the end; the rest is left to the next run")]
    Stopped,
}

impl Reconciler {
    /// Asks for a run.
    ///
    /// # Errors
    /// If the database failed.
    pub async fn begin(
        &self,
        started_by: StartedBy,
        dry_run: bool,
    ) -> Result<RunStart, order_store::Error> {
        begin(&self.store, started_by, dry_run).await
    }

    /// Carries out a run that has begun; returns it as it ended. `progress` is told of every step.
    ///
    /// # Errors
    /// If the end of the run could not be written; the next run will mark it failed.
    pub async fn carry_out(
        &self,
        run: Run,
        progress: watch::Sender<order_store::RunCounts>,
        shutdown: &CancellationToken,
    ) -> Result<Run, order_store::Error> {
        tracing::info!(run.id = %run.id, run.dry_run, run.started_by = %run.started_by, "reconciling");
        let tally = Tally::new(run.dry_run, progress);
        let ended = tokio::select! {
            biased;
            ended = self.work(&run, &tally, shutdown) => ended,
            lost = beat::beat(&self.store, &run.id, &tally) => Err(lost),
        };
        let state = match &ended {
            Ok(()) => RunState::Done,
            Err(failure) => {
                tracing::warn!(run.id = %run.id, error = %chain(failure), "a run failed");
                RunState::Failed
            }
        };
        tally.ended(state);
        let (counts, findings) = tally.take();
        self.store
            .end_run(run.id.clone(), state, counts, findings.clone())
            .await?;
        tracing::info!(
            run.id = %run.id, run.state = %state, counts.asked, counts.healed, counts.cancelled,
            counts.pending, counts.unknown, counts.raced, counts.settled,
            findings = findings.len(), "reconciled"
        );
        let ended = self.store.get_run(run.id.clone()).await?;
        Ok(ended.unwrap_or(Run {
            state,
            counts,
            findings,
            ..run
        }))
    }

    async fn work(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        self.settle(run.dry_run, tally, stop).await?;
        self.age(run.dry_run, stop).await?;
        self.ask_about_due_orders(run, tally, stop).await?;
        if !run.dry_run {
            self.store.purge(self.keep, FORGET_MAX).await?;
        }
        Ok(())
    }

    /// Settles payments that a dead process left waiting though their order is there.
    async fn settle(
        &self,
        dry_run: bool,
        tally: &Tally,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        loop {
            let settled = self.store.settle_stranded(CHORE_MAX, dry_run).await?;
            tally.add(|counts| counts.settled += settled);
            // Rolled back, the same would be found again.
            if settled == 0 || dry_run {
                return Ok(());
            }
            going_on(stop)?;
        }
    }

    /// Tells people of payments that waited too long for their order.
    async fn age(&self, dry_run: bool, stop: &CancellationToken) -> Result<(), Failure> {
        loop {
            let opened = self
                .store
                .open_overdue(self.wait_for_order, CHORE_MAX, dry_run)
                .await?;
            if opened > 0 {
                tracing::warn!(opened, "payments waited too long for their order");
            }
            if opened < u64::from(CHORE_MAX) || dry_run {
                return Ok(());
            }
            going_on(stop)?;
        }
    }

    /// Goes through what was due when the run began, oldest first. What is asked again later is
    /// due after that, so no order comes twice.
    async fn ask_about_due_orders(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut batches = JoinSet::new();
        let handed_out = self.hand_out(run, tally, stop, &mut batches).await;
        // What was asked about is brought to its end, whatever happens to others.
        let mut result = handed_out;
        while let Some(done) = batches.join_next().await {
            result = result.and(batch::joined(done));
        }
        result
    }

    /// Makes batches of what is due, a few at work at a time.
    async fn hand_out(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
        batches: &mut JoinSet<Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let patience = Patience::default();
        let mut to_ask = Vec::new();
        let mut after = None;
        loop {
            let limit = u32::try_from(BATCH).unwrap_or(u32::MAX);
            let page = self.store.due_orders(after, run.started_at, limit).await?;
            let (asked_about, looked_at) = page.orders.into_iter().partition(|order| order.to_ask);
            self.look_at(looked_at, run.dry_run).await?;
            to_ask.extend::<Vec<_>>(asked_about);
            after = page.next;
            while to_ask.len() >= BATCH || (after.is_none() && !to_ask.is_empty()) {
                let rest = to_ask.split_off(to_ask.len().min(BATCH));
                let orders = std::mem::replace(&mut to_ask, rest);
                if batches.len() >= BATCHES
                    && let Some(done) = batches.join_next().await
                {
                    batch::joined(done)?;
                }
                going_on(stop)?;
                batches.spawn(batch::settle_batch(
                    self.clone(),
                    orders,
                    run.dry_run,
                    tally.clone(),
                    patience.clone(),
                    stop.clone(),
                ));
            }
            if after.is_none() {
                return Ok(());
            }
            going_on(stop)?;
        }
    }
}

/// Asks the store for a run under a new id.
///
/// # Errors
/// If the database failed.
pub async fn begin(
    store: &Store,
    started_by: StartedBy,
    dry_run: bool,
) -> Result<RunStart, order_store::Error> {
    store
        .start_run(random_id(), started_by, dry_run, LEASE_TTL)
        .await
}

fn going_on(stop: &CancellationToken) -> Result<(), Failure> {
    if stop.is_cancelled() {
        Err(Failure::Stopped)
    } else {
        Ok(())
    }
}
