//! Do the service's own counters tell the same story?
//!
//! Only for a service that this run has to itself and that isn't restarted meanwhile. A payment that waited for its order
//! was counted as waiting when it was delivered, so the verdicts of successes are bounded one by one and exact as a sum.

use crate::{Difference, Metrics, Tally, Verdict};

const EVENTS: &str = "orderd_payment_events_total";
const REDELIVERIES: &str = "orderd_redeliveries_total";
const RECONCILIATION: &str = "orderd_reconciliation_total";

/// What was thrown between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterRun {
    /// Messages with an ack.
    pub published: u64,
    /// Messages that may have been stored besides.
    pub uncertain: u64,
}

/// How far a verdict's counter has moved between two readings.
pub(crate) fn moved(before: &Metrics, after: &Metrics, verdict: Verdict) -> u64 {
    delta(before, after, EVENTS, Some(verdict))
}

/// Compares the counters' movement with what the matched outcomes demand.
pub fn compare_counters(
    before: &Metrics,
    after: &Metrics,
    expected: &Tally,
    run: CounterRun,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut check = |what: &str, found: u64, at_least: u64, at_most: u64| {
        if !(at_least..=at_most).contains(&found) {
            let range = if at_least == at_most {
                at_least.to_string()
            } else {
                format!("{at_least} to {at_most}")
            };
            differences.push(Difference::new(what, range, found.to_string()));
        }
    };
    // Each delivery is counted once, so only these can add to what was published.
    let slack = run.uncertain + delta(before, after, REDELIVERIES, None);
    let total = delta(before, after, EVENTS, None);
    check(
        "counter of all deliveries",
        total,
        run.published,
        run.published + slack,
    );

    let (mut successes, mut successes_found) = (0, 0);
    for verdict in Verdict::ALL {
        let (demanded, found) = (expected.of(verdict), moved(before, after, verdict));
        let what = format!("counter {verdict}");
        match verdict {
            Verdict::Duplicate
            | Verdict::ConflictingContent
            | Verdict::NotLive
            | Verdict::DeadLetter => check(&what, found, demanded, demanded + slack),
            Verdict::AttemptFailed | Verdict::Reversed | Verdict::Unsupported => {
                check(&what, found, demanded, demanded);
            }
            Verdict::WaitingForOrder => {
                check(&what, found, demanded, u64::MAX);
                (successes, successes_found) = (successes + demanded, successes_found + found);
            }
            Verdict::Applied
            | Verdict::SecondPayment
            | Verdict::PaidAfterCancel
            | Verdict::CurrencyMismatch
            | Verdict::AmountMismatch => {
                check(&what, found, 0, demanded);
                (successes, successes_found) = (successes + demanded, successes_found + found);
            }
        }
    }
    check(
        "counters of successes, first deliveries",
        successes_found,
        successes,
        successes,
    );
    differences
}

/// The alarm of healed payments: as many as came from a reconciliation and moved an order.
pub(crate) fn compare_healed(before: &Metrics, after: &Metrics, healed: u64) -> Option<Difference> {
    let label = Some(("outcome", "healed"));
    let sum = |metrics: &Metrics| metrics.sum(RECONCILIATION, label);
    let found = whole(sum(after) - sum(before));
    let what = || format!("counter {RECONCILIATION} healed");
    (found != healed).then(|| Difference::new(what(), healed.to_string(), found.to_string()))
}

fn delta(before: &Metrics, after: &Metrics, name: &str, verdict: Option<Verdict>) -> u64 {
    let label = verdict.map(|verdict| ("verdict", verdict.as_str()));
    whole(after.sum(name, label) - before.sum(name, label))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a counter that went back shows as zero"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::{CounterRun, compare_counters};
    use crate::{Metrics, Tally, Verdict};

    const BEFORE: &str = "orderd_payment_events_total{verdict=\"APPLIED\"} 100";
    const RUN: CounterRun = CounterRun {
        published: 12,
        uncertain: 0,
    };

    fn expected() -> Tally {
        let mut tally = Tally::default();
        tally.add(Verdict::Applied, 7);
        tally.add(Verdict::AttemptFailed, 1);
        tally.add(Verdict::Duplicate, 3);
        tally.add(Verdict::DeadLetter, 1);
        tally
    }

    fn check(after: &[(&str, u64)], redeliveries: u64, expect: &[&str]) {
        let mut text = format!("orderd_redeliveries_total {redeliveries}\n");
        for (verdict, value) in after {
            let _ = writeln!(
                text,
                "orderd_payment_events_total{{verdict=\"{verdict}\"}} {value}"
            );
        }
        let found = compare_counters(
            &Metrics::parse(BEFORE),
            &Metrics::parse(&text),
            &expected(),
            RUN,
        );
        let found: Vec<&str> = found
            .iter()
            .map(|difference| difference.what.as_str())
            .collect();
        assert_eq!(found, expect);
    }

    const FAILED: (&str, u64) = ("ATTEMPT_FAILED", 1);
    const LETTER: (&str, u64) = ("DEAD_LETTER", 1);

    #[test]
    fn counters_that_tell_the_same_story_are_no_difference() {
        check(
            &[("APPLIED", 107), FAILED, ("DUPLICATE", 3), LETTER],
            0,
            &[],
        );
    }

    #[test]
    fn a_payment_that_waited_is_counted_as_waiting() {
        let after = [
            ("APPLIED", 105),
            ("WAITING_FOR_ORDER", 2),
            FAILED,
            ("DUPLICATE", 3),
            LETTER,
        ];
        check(&after, 0, &[]);
    }

    #[test]
    fn a_redelivery_explains_one_duplicate_more_and_no_other() {
        check(
            &[("APPLIED", 107), FAILED, ("DUPLICATE", 4), LETTER],
            1,
            &[],
        );
        let after = [("APPLIED", 107), FAILED, ("DUPLICATE", 4), LETTER];
        check(
            &after,
            0,
            &["counter of all deliveries", "counter DUPLICATE"],
        );
    }

    #[test]
    fn a_payment_applied_twice_shows() {
        let after = [("APPLIED", 108), FAILED, ("DUPLICATE", 2), LETTER];
        check(
            &after,
            0,
            &[
                "counter APPLIED",
                "counter DUPLICATE",
                "counters of successes, first deliveries",
            ],
        );
    }

    #[test]
    fn a_delivery_that_nobody_counted_shows() {
        let after = [("APPLIED", 107), FAILED, ("DUPLICATE", 3)];
        check(
            &after,
            0,
            &["counter of all deliveries", "counter DEAD_LETTER"],
        );
    }
}
