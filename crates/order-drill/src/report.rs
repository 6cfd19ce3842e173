//! What a drill found, in numbers and lines.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::counters::moved;
use crate::{Comparison, Difference, Metrics, Plan, Scenario, Thrown, Verdict};

/// The result of a drill.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The seed, to repeat the run.
    pub seed: u64,
    /// Starts every id of the run.
    pub prefix: String,
    /// Orders of the plan that are created.
    pub orders: u64,
    /// Orders found, by status.
    pub statuses: BTreeMap<String, u64>,
    /// Messages of the plan.
    pub messages: u64,
    /// Messages with an ack, and publishes that may have been stored besides; nothing if this run threw nothing.
    pub published: Option<u64>,
    /// Publishes without an ack that may have been stored all the same.
    pub uncertain: Option<u64>,
    /// Messages that tell a fact once more.
    pub duplicates: u64,
    /// Facts that nobody published and that had to be recorded all the same.
    pub lost: u64,
    /// Payments that a reconciliation told, lost or not.
    pub healed: u64,
    /// Questions asked, if the drill was the payment service.
    pub questions: Option<u64>,
    /// Cases by anomaly.
    pub anomalies: BTreeMap<&'static str, u64>,
    /// Verdicts, expected and found.
    pub verdicts: Vec<VerdictRow>,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// How many there are.
    pub differences_total: u64,
    /// Messages the service's consumer hasn't acked: undelivered ones too.
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
    /// What the service says; nothing if it wasn't asked.
    pub found: Option<u64>,
}

/// Readings of `/metrics` before and after.
pub(crate) type Readings = (Metrics, Metrics);

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        thrown: Option<&Thrown>,
        comparison: Comparison,
        readings: Option<&Readings>,
    ) -> Self {
        let verdicts = rows(&comparison, readings);
        let healed = comparison.healed.len() as u64;
        let (differences, differences_total) = comparison.differences.into_parts();
        Self {
            seed: plan.seed,
            prefix: plan.prefix.clone(),
            orders: plan.created(),
            statuses: comparison.statuses,
            messages: plan.messages.len() as u64,
            published: thrown.map(|thrown| thrown.published),
            uncertain: thrown.map(|thrown| thrown.uncertain),
            duplicates: plan.duplicates(),
            lost: plan.to_heal().count() as u64,
            healed,
            questions: None,
            anomalies: anomalies(plan),
            verdicts,
            differences,
            differences_total,
            unacked: 0,
            duration: Duration::ZERO,
        }
    }

    /// Letters read one by one fill the row that no counter filled.
    pub(crate) fn found_letters(&mut self, letters: Option<u64>) {
        let row = self
            .verdicts
            .iter_mut()
            .find(|row| row.verdict == Verdict::DeadLetter.as_str());
        if let Some(row) = row {
            row.found = row.found.or(letters);
        }
    }

    /// How many payments have this verdict; nothing if nobody asked.
    pub fn found(&self, verdict: Verdict) -> Option<u64> {
        let row = self
            .verdicts
            .iter()
            .find(|row| row.verdict == verdict.as_str());
        row.and_then(|row| row.found)
    }

    /// Differences that the comparison couldn't see.
    pub(crate) fn add(&mut self, differences: Vec<Difference>) {
        self.differences_total += differences.len() as u64;
        self.differences.extend(differences);
    }

    #[cfg(test)]
    pub(crate) fn of_nothing(plan: &Plan) -> Self {
        Self::new(plan, None, Comparison::default(), None)
    }

    /// Whether everything is as it must be.
    pub fn is_clean(&self) -> bool {
        self.differences_total == 0
    }
}

fn rows(comparison: &Comparison, readings: Option<&Readings>) -> Vec<VerdictRow> {
    let row = |verdict: Verdict| VerdictRow {
        verdict: verdict.as_str(),
        expected: if verdict.is_stored() {
            comparison.expected.of(verdict)
        } else {
            comparison.counted.of(verdict)
        },
        at_least: !verdict.is_stored(),
        found: if verdict.is_stored() {
            Some(
                comparison
                    .verdicts
                    .get(verdict.as_str())
                    .copied()
                    .unwrap_or(0),
            )
        } else {
            readings.map(|(before, after)| moved(before, after, verdict))
        },
    };
    Verdict::ALL.map(row).to_vec()
}

fn anomalies(plan: &Plan) -> BTreeMap<&'static str, u64> {
    let mut anomalies = BTreeMap::new();
    for case in &plan.ledger.cases {
        if !matches!(case.scenario, Scenario::Paid | Scenario::Unpaid) {
            *anomalies.entry(case.scenario.as_str()).or_default() += 1;
        }
    }
    if !plan.letters.is_empty() {
        anomalies.insert("dead letter", plan.letters.len() as u64);
    }
    anomalies
}

pub(crate) fn milliseconds<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
