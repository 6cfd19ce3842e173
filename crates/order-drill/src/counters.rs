//! Do the service's own counters agree?
//!
//! Only for a service that serves this run alone and isn't restarted meanwhile. A payment that waited for its order was
//! counted as waiting when it was delivered, so the count of a successful verdict has only bounds; the sum of them is exact.

use crate::compare::Healed;
use crate::metrics::Metrics;
use crate::plan::Tally;
use crate::words::Verdict;
use crate::{Difference, Thrown};

const EVENTS: &str = "orderd_payment_events_total";
const REDELIVERIES: &str = "orderd_redeliveries_total";
const RECONCILIATION: &str = "orderd_reconciliation_total";

/// How far a verdict's counter moved between two readings.
pub(crate) fn moved(before: &Metrics, after: &Metrics, verdict: Verdict) -> u64 {
    delta(before, after, EVENTS, Some(("verdict", verdict.as_str())))
}

/// Compares the counters' movement with what the matched outcomes demand.
pub(crate) fn compare_counters(
    before: &Metrics,
    after: &Metrics,
    expected: &Tally,
    thrown: &Thrown,
) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut check = |what: &str, found: u64, at_least: u64, at_most: u64| {
        differences.extend(out_of_range(what, found, at_least, at_most));
    };
    // Each delivery is counted once, so only these can add to what was published.
    let slack = thrown.uncertain + delta(before, after, REDELIVERIES, None);
    let (total, published) = (delta(before, after, EVENTS, None), thrown.published);
    let deliveries = "counter of all deliveries";
    check(deliveries, total, published, published + slack);

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

/// The counter of healed payments: as many as a run recorded and applied.
pub(crate) fn compare_healed(
    before: &Metrics,
    after: &Metrics,
    healed: &[Healed],
) -> Option<Difference> {
    let found = delta(before, after, RECONCILIATION, Some(("outcome", "healed")));
    let is_applied = |healed: &&Healed| healed.verdict == Verdict::Applied;
    let applied = || healed.iter().filter(is_applied);
    let at_most = applied().count() as u64;
    let at_least = applied().filter(|healed| !healed.perhaps_by_hand).count() as u64;
    let what = format!("counter {RECONCILIATION} healed");
    out_of_range(&what, found, at_least, at_most)
}

fn out_of_range(what: &str, found: u64, at_least: u64, at_most: u64) -> Option<Difference> {
    let range = if at_least == at_most {
        at_least.to_string()
    } else {
        format!("{at_least} to {at_most}")
    };
    let is_inside = (at_least..=at_most).contains(&found);
    (!is_inside).then(|| Difference::new(what, range, found.to_string()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a counter that went back shows as zero"
)]
fn delta(before: &Metrics, after: &Metrics, name: &str, label: Option<(&str, &str)>) -> u64 {
    (after.sum(name, label) - before.sum(name, label)).round() as u64
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::{compare_counters, compare_healed};
    use crate::Thrown;
    use crate::compare::Healed;
    use crate::metrics::Metrics;
    use crate::plan::Tally;
    use crate::words::Verdict;

    #[test]
    fn a_healed_payment_is_counted_once() {
        let healed = |verdict: Verdict, perhaps_by_hand: bool| Healed {
            fact: 0,
            verdict,
            perhaps_by_hand,
        };
        let all = [
            healed(Verdict::Applied, false),
            healed(Verdict::Applied, true),
            healed(Verdict::SecondPayment, false),
        ];
        let before = Metrics::parse("orderd_reconciliation_total{outcome=\"healed\"} 5");
        let check = |after: u64, expect: bool| {
            let text = format!(
                "orderd_reconciliation_total{{outcome=\"healed\"}} {after}\n\
                 orderd_reconciliation_total{{outcome=\"asked\"}} 100"
            );
            let found = compare_healed(&before, &Metrics::parse(&text), &all);
            assert_eq!(found.is_none(), expect, "{after}");
        };
        check(5, false);
        check(6, true);
        check(7, true);
        check(8, false);
    }

    const BEFORE: &str = "orderd_payment_events_total{verdict=\"APPLIED\"} 100";

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
        let thrown = Thrown {
            published: 12,
            ..Thrown::default()
        };
        let (before, after) = (Metrics::parse(BEFORE), Metrics::parse(&text));
        let found = compare_counters(&before, &after, &expected(), &thrown);
        let found: Vec<&str> = found
            .iter()
            .map(|difference| difference.what.as_str())
            .collect();
        assert_eq!(found, expect);
    }

    const FAILED: (&str, u64) = ("ATTEMPT_FAILED", 1);
    const LETTER: (&str, u64) = ("DEAD_LETTER", 1);

    #[test]
    fn counters_that_agree_show_no_difference() {
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
    fn a_delivery_that_was_not_counted_shows() {
        let after = [("APPLIED", 107), FAILED, ("DUPLICATE", 3)];
        check(
            &after,
            0,
            &["counter of all deliveries", "counter DEAD_LETTER"],
        );
    }
}
