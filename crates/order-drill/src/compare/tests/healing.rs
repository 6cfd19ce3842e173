//! Lost payments that a reconciliation must have found.

use super::compared;
use super::model::{Bug, Model};
use crate::compare::{Comparison, Healed};
use crate::ops::{compare_exceptions, compare_runs};
use crate::plan::Scenario;
use crate::view::{FindingView, RunView};
use crate::words::Verdict;
use crate::{Difference, Plan, PlanOptions};

/// The usual plan, with every kind of loss.
fn lossy(seed: u64) -> Plan {
    Plan::generate(&PlanOptions {
        expect_healed: true,
        lost_anomalies: 12,
        ..super::options(seed)
    })
}

#[test]
fn what_was_lost_and_healed_shows_no_difference() {
    let mut cancelled = 0;
    for seed in 0..20 {
        let plan = lossy(seed);
        let model = Model::healed(&plan);
        let comparison = compared(&plan, &model);
        let none: &[Difference] = &[];
        assert_eq!(comparison.differences.kept(), none, "seed {seed}");
        let exceptions = compare_exceptions(&plan, &comparison.exceptions, &model.exceptions());
        assert_eq!(exceptions, none, "seed {seed}");
        for fact in plan.to_heal() {
            assert!(comparison.healed.iter().any(|healed| healed.fact == fact));
        }
        cancelled += verdicts(&comparison, Verdict::PaidAfterCancel);
        assert!(verdicts(&comparison, Verdict::Reversed) >= 12);
        assert!(
            comparison.healed.len() > plan.to_heal().count(),
            "some were healed early"
        );
        counters_agree(&plan, &model, &comparison, seed);
    }
    assert!(cancelled > 0);
}

fn verdicts(comparison: &Comparison, verdict: Verdict) -> usize {
    comparison
        .healed
        .iter()
        .filter(|healed| healed.verdict == verdict)
        .count()
}

/// A payment that a reconciliation recorded first was counted as a duplicate when its event came.
fn counters_agree(plan: &Plan, model: &Model, comparison: &Comparison, seed: u64) {
    let (mut counted, mut delivered) = (0, 0);
    for verdict in Verdict::ALL {
        let (expected, found) = (comparison.counted.of(verdict), model.delivered(verdict));
        match verdict {
            Verdict::DeadLetter => assert_eq!(found, plan.letters.len() as u64),
            Verdict::Duplicate | Verdict::ConflictingContent | Verdict::Reversed => {
                assert_eq!(found, expected, "seed {seed} {verdict}");
            }
            _ => (counted, delivered) = (counted + expected, delivered + found),
        }
    }
    assert_eq!(delivered, counted, "seed {seed}");
}

#[test]
fn what_was_not_healed_shows() {
    let plan = lossy(1);
    let model = Model::after(&plan, Bug::None);
    let differing: Vec<String> = compared(&plan, &model)
        .differences
        .kept()
        .iter()
        .map(ToString::to_string)
        .collect();
    for fact in plan.to_heal() {
        let name = plan.payment_name(fact);
        assert!(
            differing
                .iter()
                .any(|difference| difference.contains(&name)),
            "{name}"
        );
    }
}

#[test]
fn a_history_that_hides_where_a_payment_came_from_shows() {
    let plan = lossy(1);
    let model = Model::healed(&plan);
    let (case, mut seen) = super::seen_of(&plan, &model, Scenario::Lost);
    let paid = seen[0].history.last_mut().expect("it was healed");
    paid.source = "event".into();
    let found = super::nearest(&plan, case, &seen).differences;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0]
            .to_string()
            .ends_with("source at version 2: expected reconciliation, found event")
    );
}

#[test]
fn runs_report_everything_they_healed_and_nothing_else() {
    let plan = lossy(1);
    let facts: Vec<u32> = plan.to_heal().take(2).collect();
    let healed = |verdicts: [Verdict; 2]| {
        let both = facts.iter().zip(verdicts);
        both.map(|(&fact, verdict)| Healed {
            fact,
            verdict,
            perhaps_by_hand: false,
        })
        .collect::<Vec<_>>()
    };
    let run = |dry_run: bool, kinds: [&str; 2]| RunView {
        dry_run,
        healed: kinds.iter().filter(|kind| **kind == "healed").count() as u64,
        findings: facts
            .iter()
            .zip(kinds)
            .map(|(&fact, kind)| FindingView {
                order_id: plan.order_id(plan.fact(fact).order),
                kind: kind.to_owned(),
            })
            .collect(),
        ..RunView::default()
    };
    let both = healed([Verdict::Applied, Verdict::SecondPayment]);
    let check = |runs: &[RunView], healed: &[Healed], expect: usize| {
        let found = compare_runs(&plan, healed, runs);
        assert_eq!(found.len(), expect, "{found:#?}");
    };
    let right = run(false, ["healed", "second-payment"]);
    check(std::slice::from_ref(&right), &both, 0);
    check(&[], &both, 2);
    check(&[run(true, ["healed", "second-payment"])], &both, 2);
    check(&[run(false, ["second-payment", "healed"])], &both, 3);
    check(&[right.clone(), right.clone()], &both, 1);
    check(&[right], &both[1..], 1);
    let cut = RunView {
        healed: 1_001,
        ..run(false, ["healed", "mismatch"])
    };
    check(&[cut], &both, 0);
    let by_hand = Healed {
        perhaps_by_hand: true,
        ..both[0]
    };
    check(&[], &[by_hand], 0);
}
