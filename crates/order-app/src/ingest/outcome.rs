//! What became of messages, and how it is counted.

use metrics::{counter, histogram};
use order_fsm::Verdict;
use time::OffsetDateTime;

use super::Entry;
use super::hold;

/// How dead letters are counted among the verdicts.
pub const DEAD_LETTER: &str = "DEAD_LETTER";

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A payment was recorded with this verdict.
    Payment(Verdict),
    /// A dead letter was recorded.
    DeadLetter,
}

impl Outcome {
    /// Its name in logs and metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Payment(verdict) => verdict.as_str(),
            Self::DeadLetter => DEAD_LETTER,
        }
    }
}

/// Counts what was committed.
pub(super) fn count(entries: &[Entry], outcomes: &[Outcome], committed_at: OffsetDateTime) {
    if entries.is_empty() {
        return;
    }
    #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
    histogram!("orderd_batch_size").record(entries.len() as f64);
    let delays = histogram!("orderd_commit_delay_seconds");
    for Entry { message, .. } in entries {
        if let Some(published) = message.published {
            delays.record((committed_at - published).as_seconds_f64().max(0.0));
        }
        if message.delivered > 1 {
            counter!("orderd_redeliveries_total").increment(1);
        }
    }
    for outcome in outcomes {
        counter!("orderd_payment_events_total", "verdict" => outcome.as_str()).increment(1);
    }
}

/// Describes the metrics of ingest and shows every counter from the start, at zero.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_histogram};

    hold::describe_metrics();
    describe_counter!(
        "orderd_payment_events_total",
        "Delivered payment events by what became of them"
    );
    describe_counter!(
        "orderd_redeliveries_total",
        "Deliveries that were not the first"
    );
    describe_histogram!("orderd_batch_size", "Messages of one transaction");
    describe_histogram!(
        "orderd_commit_delay_seconds",
        Unit::Seconds,
        "From the publishing of a message to the commit of its outcome"
    );
    for verdict in Verdict::ALL
        .map(Verdict::as_str)
        .into_iter()
        .chain([DEAD_LETTER])
    {
        counter!("orderd_payment_events_total", "verdict" => verdict).increment(0);
    }
    counter!("orderd_redeliveries_total").increment(0);
    // Naming a histogram shows it, empty.
    let _ = histogram!("orderd_batch_size");
    let _ = histogram!("orderd_commit_delay_seconds");
}
