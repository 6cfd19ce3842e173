//! What a run has done and found so far.

use std::sync::{Arc, Mutex};

use metrics::counter;
use order_fsm::OrderId;
use order_store::{FindingKind, RunCounts, RunFinding, RunState};
use tokio::sync::watch;

use super::phase::Phase;
use crate::clock;
use crate::lock::lock;

/// The most findings that are stored with a run; all of them are counted and logged.
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

    /// Changes the counts.
    pub(super) fn add(&self, change: impl FnOnce(&mut RunCounts)) {
        let mut inner = lock(&self.inner);
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

    /// Logs, counts and keeps a finding.
    pub(super) fn find(&self, order_id: &OrderId, kind: FindingKind, detail: String) {
        tracing::warn!(
            order.id = %order_id, finding = %kind, detail, dry_run = self.dry_run,
            "finding recorded"
        );
        if !self.dry_run {
            counter("findings", 1);
        }
        let mut inner = lock(&self.inner);
        if inner.findings.len() < FINDINGS_MAX {
            inner.findings.push(RunFinding {
                order_id: order_id.clone(),
                kind,
                detail,
            });
        }
    }

    pub(super) fn counts(&self) -> RunCounts {
        let inner = lock(&self.inner);
        inner.counts
    }

    pub(super) fn take(&self) -> (RunCounts, Vec<RunFinding>) {
        let mut inner = lock(&self.inner);
        (inner.counts, std::mem::take(&mut inner.findings))
    }

    /// Counts how the run ended.
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

/// Describes the metrics, and starts each at zero: an alert needs the step from there.
pub fn describe_metrics() {
    use metrics::{describe_counter, describe_gauge};

    describe_counter!(
        "orderd_reconciliation_total",
        "What reconciliation did, by outcome; healed counts payments that the broker or the publisher lost"
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
        "orderd_reconciliation_phase_failures_total",
        "Phases of runs that failed; the other phases of the run went on"
    );
    for phase in Phase::ALL {
        phase.failed(0);
    }
    describe_counter!(
        "orderd_reconciliation_skipped_total",
        "Scheduled runs that were skipped because another one was running"
    );
    counter!("orderd_reconciliation_skipped_total").increment(0);
    describe_gauge!(
        "orderd_reconciliation_last_done_timestamp_seconds",
        "When a run of this process was last done"
    );
}
