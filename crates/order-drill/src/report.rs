//! What a drill found, in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::compare::Comparison;
use crate::counters::moved;
use crate::metrics::Metrics;
use crate::plan::Scenario;
use crate::words::Verdict;
use crate::{Differences, Plan, Thrown};

/// The result of a drill.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The source of everything random, to repeat the run.
    pub seed: u64,
    /// The start of every id of the run.
    pub prefix: String,
    /// Orders of the plan that are created.
    pub orders: u64,
    /// Orders found, by status.
    pub statuses: BTreeMap<String, u64>,
    /// Messages of the plan.
    pub messages: u64,
    /// Messages with an ack; `None` if this run threw nothing.
    pub published: Option<u64>,
    /// Publishes without an ack that may have been stored all the same; `None` if this run threw nothing.
    pub uncertain: Option<u64>,
    /// Messages that publish a fact once more.
    pub duplicates: u64,
    /// Facts that were never published and had to be recorded all the same.
    pub lost: u64,
    /// Payments that a reconciliation recorded, lost or not.
    pub healed: u64,
    /// Questions to the payment service, if the drill played it.
    pub questions: Option<u64>,
    /// Cases by anomaly.
    pub anomalies: BTreeMap<&'static str, u64>,
    /// Verdicts, expected and found.
    pub verdicts: Vec<VerdictRow>,
    /// What isn't as it must be.
    #[serde(flatten)]
    pub differences: Differences,
    /// Messages that the service's consumer hasn't acked, including undelivered ones.
    pub unacked: u64,
    /// From the first step to the last.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
}

/// A verdict, expected and found.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictRow {
    /// The word on the wire.
    pub verdict: &'static str,
    /// What the matched outcomes demand.
    pub expected: u64,
    /// Whether redeliveries may add to it.
    pub at_least: bool,
    /// What the service says; `None` if it wasn't asked.
    pub found: Option<u64>,
}

/// Readings of `/metrics` before and after.
pub(crate) type Readings = (Metrics, Metrics);

impl Report {
    /// A report without what only a session knows; `letters` were found one by one, and used if no counter was read.
    pub(crate) fn new(
        plan: &Plan,
        thrown: Option<&Thrown>,
        comparison: Comparison,
        readings: Option<&Readings>,
        letters: Option<u64>,
    ) -> Self {
        Self {
            seed: plan.seed,
            prefix: plan.prefix.clone(),
            orders: plan.created(),
            messages: plan.messages.len() as u64,
            published: thrown.map(|thrown| thrown.published),
            uncertain: thrown.map(|thrown| thrown.uncertain),
            duplicates: plan.duplicates(),
            lost: plan.to_heal().count() as u64,
            healed: comparison.healed.len() as u64,
            questions: None,
            anomalies: anomalies(plan),
            verdicts: rows(&comparison, readings, letters),
            statuses: comparison.statuses,
            differences: comparison.differences,
            unacked: 0,
            duration: Duration::ZERO,
        }
    }

    /// How many payments have this verdict; `None` if the service wasn't asked.
    pub(crate) fn found(&self, verdict: Verdict) -> Option<u64> {
        let verdict = verdict.as_str();
        let row = self.verdicts.iter().find(|row| row.verdict == verdict);
        row.and_then(|row| row.found)
    }
}

fn rows(
    comparison: &Comparison,
    readings: Option<&Readings>,
    letters: Option<u64>,
) -> Vec<VerdictRow> {
    let row = |verdict: Verdict| {
        let counted = readings.map(|(before, after)| moved(before, after, verdict));
        let stored = comparison.verdicts.get(verdict.as_str());
        let (tally, found) = match verdict {
            Verdict::DeadLetter => (&comparison.counted, counted.or(letters)),
            stored_one if stored_one.is_stored() => {
                (&comparison.expected, Some(stored.copied().unwrap_or(0)))
            }
            _ => (&comparison.counted, counted),
        };
        VerdictRow {
            verdict: verdict.as_str(),
            expected: tally.of(verdict),
            at_least: !verdict.is_stored(),
            found,
        }
    };
    Verdict::ALL.map(row).to_vec()
}

fn anomalies(plan: &Plan) -> BTreeMap<&'static str, u64> {
    let mut anomalies = plan.cases();
    for usual in [Scenario::Paid, Scenario::Unpaid] {
        anomalies.remove(usual.as_str());
    }
    if !plan.letters.is_empty() {
        anomalies.insert("dead letter", plan.letters.len() as u64);
    }
    anomalies
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
