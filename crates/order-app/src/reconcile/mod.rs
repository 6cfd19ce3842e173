//! The reconciliation job: asks the payment service about orders that should be settled by now.
//!
//! A run takes no input and keeps its state in rows only: what it doesn't reach, the next run does.
//! It decides nothing about payments: answers are recorded as facts like any other, and the store
//! judges, cancels and schedules. A lease allows one run at a time; it only saves work, since two
//! runs at once would be correct too.
//!
//! Enter at [`Reconciler::carry_out`]; `ask` narrows down unreadable replies.

mod ask;
mod batch;
mod beat;
mod phase;
mod schedule;
mod tally;
#[cfg(test)]
mod tests;
mod walk;

use std::time::Duration;

use order_store::{Place, Run, RunStart, RunState, StartedBy, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::payment_service::PaymentService;
use crate::random_id::random_id;
use crate::telemetry::chain;
use ask::Patience;
use phase::{Failed, Phase};
use tally::Tally;

pub use schedule::run_scheduled;
pub use tally::describe_metrics;
pub(crate) use walk::{STEP, STEPS_MAX};
pub use walk::{Walk, Walks};

/// How long a run keeps its lease without renewing it.
pub const LEASE_TTL: Duration = Duration::from_secs(30);

/// The due orders of a batch: read, asked about and handled together.
const BATCH: usize = crate::payment_service::ORDERS_MAX;

/// Batches at a time: while one waits for the payment service, another one is at the database.
const BATCHES: usize = 3;

/// The most rows of a kind that a run deletes.
const PURGE_MAX: u64 = 20_000;

/// The job, ready to run. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reconciler {
    /// The store that the job works on.
    pub store: Store,
    /// The payment service, if one is set.
    pub service: Option<PaymentService>,
    /// How long a payment waits for its order before an exception is opened.
    pub wait_for_order: Duration,
    /// How long closed and finished rows are kept.
    pub keep: Duration,
    /// How far it got among the waiting payments.
    pub walks: Walks,
}

/// Why a run or a phase failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] order_store::Error),
    /// The payment service left too many questions without a reply.
    #[error("the payment service doesn't reply; the rest is left to the next run")]
    NoReplies,
    /// The payment service asked for a pause of this length.
    #[error("the payment service must not be asked for another {0:?}; due orders stay due")]
    NotToBeAsked(Duration),
    /// The lease expired, and another run has taken it.
    #[error("another run has taken over")]
    LeaseLost,
    /// The process stops.
    #[error("stopped before the end; the rest is left to the next run")]
    Stopped,
}

impl Reconciler {
    /// Starts a run, unless one is running.
    ///
    /// # Errors
    /// If the database failed.
    pub async fn begin(
        &self,
        started_by: StartedBy,
        dry_run: bool,
    ) -> Result<RunStart, order_store::Error> {
        self.store
            .start_run(random_id(), started_by, dry_run, LEASE_TTL)
            .await
    }

    /// Carries out a run that has been started; returns it as it ended. `progress` gets the counts after
    /// every step.
    ///
    /// # Errors
    /// If the end of the run could not be recorded; the next run will mark it failed.
    pub async fn carry_out(
        &self,
        run: Run,
        progress: watch::Sender<order_store::RunCounts>,
        shutdown: &CancellationToken,
    ) -> Result<Run, order_store::Error> {
        tracing::info!(
            run.id = %run.id, run.dry_run, run.started_by = %run.started_by,
            "run started"
        );
        let tally = Tally::new(run.dry_run, progress);
        let ended = tokio::select! {
            biased;
            ended = self.work(&run, &tally, shutdown) => ended,
            lost = beat::beat(&self.store, &run.id, &tally) => Err(lost),
        };
        let state = match &ended {
            Ok(failed) if failed.phases == 0 => RunState::Done,
            // Logged by each phase.
            Ok(_) => RunState::Failed,
            Err(failure) => {
                tracing::warn!(run.id = %run.id, error = %chain(failure), "run failed");
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
            findings = findings.len(), "run ended"
        );
        let ended = self.store.get_run(run.id.clone()).await?;
        Ok(ended.unwrap_or(Run {
            state,
            counts,
            findings,
            ..run
        }))
    }

    /// Goes through the phases of a run. A failed phase doesn't stop the others; returns how many failed.
    async fn work(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
    ) -> Result<Failed, Failure> {
        let mut failed = Failed::default();
        failed.note(Phase::Settle, self.settle(run, tally, stop).await)?;
        failed.note(Phase::Age, self.age(run, stop).await)?;
        failed.note(
            Phase::Ask,
            self.ask_about_due_orders(run, tally, stop).await,
        )?;
        if !run.dry_run {
            let forgotten = self.store.purge(self.keep, PURGE_MAX).await;
            failed.note(Phase::Forget, forgotten.map(drop).map_err(Failure::from))?;
        }
        Ok(failed)
    }

    /// Settles payments that a dead process left waiting although their order exists.
    async fn settle(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut ranges = self.walk(run, &self.walks.settle);
        let mut result = Ok(());
        while let Some(range) = ranges.next(stop).await? {
            match self.store.settle_stranded(range, run.dry_run).await {
                Ok(settled) => tally.add(|counts| counts.settled += settled),
                Err(error) => result = result.and(Err(self.going_on_after(error).await?)),
            }
        }
        result
    }

    /// Opens exceptions for payments that have waited too long for their order.
    async fn age(&self, run: &Run, stop: &CancellationToken) -> Result<(), Failure> {
        let mut ranges = self.walk(run, &self.walks.age);
        let mut result = Ok(());
        while let Some(range) = ranges.next(stop).await? {
            let opened = self
                .store
                .open_overdue(self.wait_for_order, range, run.dry_run);
            match opened.await {
                Ok(0) => {}
                Ok(opened) => tracing::warn!(
                    opened,
                    "payments waited too long for their orders; exceptions opened"
                ),
                Err(error) => result = result.and(Err(self.going_on_after(error).await?)),
            }
        }
        result
    }

    /// Returns the failure of a part, so that the others can be tried; an error if those would fail as well.
    async fn going_on_after(&self, error: order_store::Error) -> Result<Failure, Failure> {
        if self.is_of_a_part(&error).await {
            Ok(error.into())
        } else {
            Err(error.into())
        }
    }

    /// Goes through the orders that were due when the run began, oldest first. An order that is
    /// asked about again later becomes due after that, so none comes twice.
    async fn ask_about_due_orders(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut batches = JoinSet::new();
        let handed_out = self.hand_out(run, tally, stop, &mut batches).await;
        // Batches that were asked about are finished, whatever happens to others.
        let mut result = handed_out;
        while let Some(done) = batches.join_next().await {
            result = result.and(batch::joined(done));
        }
        result
    }

    /// Makes batches of the due orders, and works on a few at a time.
    async fn hand_out(
        &self,
        run: &Run,
        tally: &Tally,
        stop: &CancellationToken,
        batches: &mut JoinSet<Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let patience = Patience::default();
        let mut to_ask = Vec::new();
        let mut from = Place::START;
        loop {
            let limit = u32::try_from(BATCH).unwrap_or(u32::MAX);
            let page = self.store.due_orders(from, run.started_at, limit).await?;
            let (asked_about, looked_at) = page.orders.into_iter().partition(|order| order.to_ask);
            self.look_at(looked_at, run.dry_run).await?;
            self.put_off(page.unreadable, run.dry_run, tally).await?;
            to_ask.extend::<Vec<_>>(asked_about);
            let is_last = page.next.is_none();
            while to_ask.len() >= BATCH || (is_last && !to_ask.is_empty()) {
                let rest = to_ask.split_off(to_ask.len().min(BATCH));
                let orders = std::mem::replace(&mut to_ask, rest);
                if batches.len() >= BATCHES
                    && let Some(done) = batches.join_next().await
                {
                    batch::joined(done)?;
                }
                going_on(stop)?;
                batches.spawn(batch::handle_batch(
                    self.clone(),
                    orders,
                    run.dry_run,
                    tally.clone(),
                    patience.clone(),
                    stop.clone(),
                ));
            }
            from = match page.next {
                Some(next) => next,
                None => return Ok(()),
            };
            going_on(stop)?;
        }
    }
}

fn going_on(stop: &CancellationToken) -> Result<(), Failure> {
    if stop.is_cancelled() {
        Err(Failure::Stopped)
    } else {
        Ok(())
    }
}
