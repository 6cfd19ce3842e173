//! A run of the reconciliation on the wire: the same shape over HTTP and on standard output.

use order_store::RunFinding;
use serde::Serialize;

use crate::time_format::format;

/// The contract's Run shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the wire, explained by the contract"
)]
pub struct Run {
    pub id: String,
    pub state: &'static str,
    pub dry_run: bool,
    pub trigger: &'static str,
    pub started_at: String,
    pub finished_at: Option<String>,
    pub asked: u64,
    pub healed: u64,
    pub cancelled: u64,
    pub pending: u64,
    pub unknown: u64,
    pub raced: u64,
    pub settled: u64,
    pub findings: Vec<Finding>,
}

/// Something a run reports to people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the wire, explained by the contract"
)]
pub struct Finding {
    pub order_id: String,
    pub kind: &'static str,
    pub detail: String,
}

impl From<order_store::Run> for Run {
    fn from(run: order_store::Run) -> Self {
        Self {
            id: run.id,
            state: run.state.as_str(),
            dry_run: run.dry_run,
            trigger: run.started_by.as_str(),
            started_at: format(run.started_at),
            finished_at: run.finished_at.map(format),
            asked: run.counts.asked,
            healed: run.counts.healed,
            cancelled: run.counts.cancelled,
            pending: run.counts.pending,
            unknown: run.counts.unknown,
            raced: run.counts.raced,
            settled: run.counts.settled,
            findings: run.findings.into_iter().map(Finding::from).collect(),
        }
    }
}

impl From<RunFinding> for Finding {
    fn from(finding: RunFinding) -> Self {
        Self {
            order_id: finding.order_id.to_string(),
            kind: finding.kind.as_str(),
            detail: finding.detail,
        }
    }
}
