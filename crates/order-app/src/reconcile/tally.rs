//! What a run did and found so far.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::counter;
use order_fsm::OrderId;
use order_store::{FindingKind, RunCounts, RunFinding, RunState};
use tokio::sync::watch;

use crate::clock;

/// Findings that are kept with a run at most; all of them are counted and logged.
const FINDINGS_MAX: usize = 1000;

/// Shared by the batches of a run.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    inner: Arc<Mutex<Inner>>,
    progress: watch::Sender<RunCounts>,
    dry_run: bool,
}

#[derive(Debug, Default)]
struct Inner {
    counts: RunCounts,
    findings: Vec<RunFinding>,
}

impl Tally {
    pub(super) fn new(dry_run: bool, progress: watch::Sender<RunCounts>) -> Self {
        Self {
            inner: Arc::default(),
            progress,
            dry_run,
        }
    }

    /// Counts.
    pub(super) fn add(&self, change: impl FnOnce(&mut RunCounts)) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = inner.counts;
        change(&mut inner.counts);
        let after = inner.counts;
        drop(inner);
        if !self.dry_run {
            for ((outcome, before), (_, after)) in outcomes(before).into_iter().zip(outcomes(after))
            {
                counter(outcome, after - before);
            }
        }
        self.progress.send_replace(after);
    }

    /// Keeps something for people.
    pub(super) fn find(&self, order_id: &OrderId, kind: FindingKind, detail: String) {
        tracing::warn!(
            order.id = %order_id, finding = %kind, detail, dry_run = self.dry_run,
            "the reconciliation found something"
        );
        if !self.dry_run {
            counter("findings", 1);
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.findings.len() < FINDINGS_MAX {
            inner.findings.push(RunFinding {
                order_id: order_id.clone(),
                kind,
                detail,
            });
        }
    }

    pub(super) fn counts(&self) -> RunCounts {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.counts
    }

    pub(super) fn take(&self) -> (RunCounts, Vec<RunFinding>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.counts, std::mem::take(&mut inner.findings))
    }

    /// Says how the run ended.
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds since 1970 fit for ages"
    )]
    pub(super) fn ended(&self, state: RunState) {
        if self.dry_run {
            return;
        }
        counter!("orderd_reconciliation_runs_total", "state" => state.as_str()).increment(1);
        if state == RunState::Done {
            let now = clock::now().unix_timestamp() as f64;
            metrics::gauge!("orderd_reconciliation_last_done_timestamp_seconds").set(now);
        }
    }
}

fn outcomes(counts: RunCounts) -> [(&'static str, u64); 7] {
    [
        ("asked", counts.asked),
        ("healed", counts.healed),
        ("cancelled", counts.cancelled),
        ("pending", counts.pending),
        ("unknown", counts.unknown),
        ("raced", counts.raced),
        ("settled", counts.settled),
    ]
}

fn counter(outcome: &'static str, count: u64) {
    counter!("orderd_reconciliation_total", "outcome" => outcome).increment(count);
}

/// Names the metrics, and begins each at zero: an alarm needs the step from there.
pub fn describe_metrics() {
    use metrics::{describe_counter, describe_gauge};

    describe_counter!(
        "orderd_reconciliation_total",
        "What reconciliation did, by outcome; healed: payments that broker or publisher lost"
    );
    for (outcome, _) in outcomes(RunCounts::default()) {
        counter(outcome, 0);
    }
    counter("findings", 0);
    describe_counter!(
        "orderd_reconciliation_runs_total",
        "Runs of this process by how they ended"
    );
    for state in [RunState::Done, RunState::Failed] {
        counter!("orderd_reconciliation_runs_total", "state" => state.as_str()).increment(0);
    }
    describe_counter!(
        "orderd_reconciliation_skipped_total",
        "Runs that did not begin because another one was at work"
    );
    counter!("orderd_reconciliation_skipped_total").increment(0);
    describe_gauge!(
        "orderd_reconciliation_last_done_timestamp_seconds",
        "When a run of this process last came to its end"
    );
    describe_counter!(
        "orderd_payment_service_stray_entries_total",
        "Entries of replies that are about no order that was asked about"
    );
    counter!("orderd_payment_service_stray_entries_total").increment(0);
}
