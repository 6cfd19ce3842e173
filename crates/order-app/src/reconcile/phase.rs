//! The phases of a run: a failed phase doesn't stop the others.

use metrics::counter;

use super::Failure;
use crate::telemetry::chain;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Settles payments that wait although their order exists.
    Settle,
    /// Opens exceptions for payments that have waited too long.
    Age,
    /// Asks the payment service about due orders.
    Ask,
    /// Deletes old rows.
    Forget,
}

impl Phase {
    /// Every phase.
    pub(super) const ALL: [Self; 4] = [Self::Settle, Self::Age, Self::Ask, Self::Forget];

    /// The name in metrics and logs.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Settle => "settle",
            Self::Age => "age",
            Self::Ask => "ask",
            Self::Forget => "forget",
        }
    }

    /// Counts a failure of this phase.
    pub(super) fn failed(self, count: u64) {
        counter!("orderd_reconciliation_phase_failures_total", "phase" => self.as_str())
            .increment(count);
    }
}

/// How many phases of a run failed.
#[derive(Debug, Default)]
pub(super) struct Failed {
    pub(super) phases: u32,
}

impl Failed {
    /// Notes how a phase ended: a failure is logged and counted, and the next phase follows. Only
    /// what ends the whole run is an error.
    pub(super) fn note(&mut self, phase: Phase, ended: Result<(), Failure>) -> Result<(), Failure> {
        match ended {
            Ok(()) => Ok(()),
            Err(end @ (Failure::Stopped | Failure::LeaseLost)) => Err(end),
            Err(failure @ (Failure::Store(_) | Failure::NoReplies | Failure::NotToBeAsked(_))) => {
                tracing::warn!(
                    phase = phase.as_str(),
                    error = chain(&failure),
                    "phase of a run failed; the other phases go on"
                );
                phase.failed(1);
                self.phases += 1;
                Ok(())
            }
        }
    }
}
