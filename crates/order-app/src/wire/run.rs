//! A run of the reconciliation: the same shape over HTTP and on standard output.

use order_store::RunFinding;
use serde::Serialize;
use utoipa::ToSchema;

use super::schemas;
use crate::time_format::format;

/// A run of the reconciliation.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
pub(crate) struct Run {
    #[schema(value_type = schemas::RunId)]
    pub(crate) id: String,
    #[schema(value_type = schemas::RunState)]
    pub(crate) state: &'static str,
    /// Whether all changes are rolled back: the counts say what would happen.
    pub(crate) dry_run: bool,
    /// What started it.
    #[schema(value_type = schemas::StartedBy)]
    pub(crate) trigger: &'static str,
    #[schema(value_type = schemas::Time)]
    pub(crate) started_at: String,
    #[schema(value_type = Option<schemas::Time>, required)]
    pub(crate) finished_at: Option<String>,
    /// Orders that the payment service was asked about.
    pub(crate) asked: u64,
    /// Orders paid by a payment that only the payment service knew of.
    pub(crate) healed: u64,
    /// Orders cancelled.
    pub(crate) cancelled: u64,
    /// Orders without a final answer; they are asked about again later.
    pub(crate) pending: u64,
    /// Orders without a usable answer; they are asked about again later.
    pub(crate) unknown: u64,
    /// Orders that something else moved in the meantime.
    pub(crate) raced: u64,
    /// Waiting payments whose order was created since.
    pub(crate) settled: u64,
    /// Findings for people: the first 1000.
    pub(crate) findings: Vec<Finding>,
    /// How many findings can't be read and are left out; absent if there are none.
    #[schema(value_type = i64, minimum = 1, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unreadable: Option<u64>,
}

/// A finding of a run.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunFinding)]
pub(crate) struct Finding {
    #[schema(value_type = schemas::Id)]
    pub(crate) order_id: String,
    #[schema(value_type = schemas::FindingKind)]
    pub(crate) kind: &'static str,
    /// For people.
    pub(crate) detail: String,
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
            unreadable: Some(run.unreadable).filter(|count| *count > 0),
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
