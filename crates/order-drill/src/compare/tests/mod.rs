//! A service that keeps the contract shows no difference; one that breaks it anywhere shows some.

mod healing;
mod model;

use model::{Bug, Model};

use super::{Comparison, Inspected, Seen, nearest};
use crate::events::Follow;
use crate::ops::compare_exceptions;
use crate::plan::{Case, Scenario};
use crate::view::PaymentView;
use crate::words::Verdict;
use crate::{Anomalies, Difference, Plan, PlanOptions};

fn options(seed: u64) -> PlanOptions {
    PlanOptions {
        seed,
        orders: 150,
        lose: 0.05,
        duplicates: 0.2,
        early: 0.2,
        window: 150,
        anomalies: Anomalies::each(12),
        cancels: 12,
        ..PlanOptions::default()
    }
}

fn plan(seed: u64) -> Plan {
    Plan::generate(&options(seed))
}

fn compared(plan: &Plan, model: &Model) -> Comparison {
    let mut comparison = Comparison::default();
    for case in &plan.ledger.cases {
        let seen: Vec<Seen> = case
            .orders
            .clone()
            .map(|order| model.seen(&plan.order_id(order)))
            .collect();
        let nearest = nearest(plan, case, &seen);
        comparison.add(
            plan,
            Inspected {
                case,
                seen,
                nearest,
            },
            true,
        );
    }
    comparison
}

fn seen_of<'a>(plan: &'a Plan, model: &Model, scenario: Scenario) -> (&'a Case, Vec<Seen>) {
    let case = plan
        .ledger
        .cases
        .iter()
        .find(|case| case.scenario == scenario)
        .expect("a case");
    (
        case,
        case.orders
            .clone()
            .map(|order| model.seen(&plan.order_id(order)))
            .collect(),
    )
}

#[test]
fn a_service_that_keeps_the_contract_shows_no_difference() {
    for seed in 0..20 {
        let plan = plan(seed);
        let model = Model::after(&plan, Bug::None);
        let comparison = compared(&plan, &model);
        let none: &[Difference] = &[];
        assert_eq!(comparison.differences.kept(), none, "seed {seed}");
        assert_eq!(
            compare_exceptions(&plan, &comparison.exceptions, &model.exceptions()),
            none,
            "seed {seed}"
        );
        let letters = plan.letters.len() as u64;
        for verdict in Verdict::ALL {
            let expected = comparison.expected.of(verdict);
            let found = match verdict {
                Verdict::DeadLetter => model.delivered(verdict).saturating_sub(letters),
                stored if stored.is_stored() => comparison
                    .verdicts
                    .get(stored.as_str())
                    .copied()
                    .unwrap_or(0),
                repeated => model.delivered(repeated),
            };
            assert_eq!(found, expected, "seed {seed} {verdict}");
        }
    }
}

#[test]
fn every_bug_shows() {
    for bug in Bug::ALL {
        let plan = plan(1);
        let model = Model::after(&plan, bug);
        assert!(
            compared(&plan, &model).differences.total() > 0,
            "{bug:?} was not noticed"
        );
    }
}

/// Spoils what was seen of a paid order; exactly the given parts must differ.
fn check(spoil: impl FnOnce(&mut Seen), expect: &[&str]) {
    let plan = plan(1);
    let model = Model::after(&plan, Bug::None);
    let (case, mut seen) = seen_of(&plan, &model, Scenario::Paid);
    spoil(&mut seen[0]);
    let found = nearest(&plan, case, &seen).differences;
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    for (difference, part) in found.iter().zip(expect) {
        assert!(
            difference.to_string().contains(part),
            "{part}: {difference}"
        );
    }
}

fn applied(seen: &mut Seen) -> &mut PaymentView {
    let payments = seen.payments.as_mut().expect("a paid order has payments");
    payments
        .iter_mut()
        .find(|payment| payment.verdict == "APPLIED")
        .expect("one paid it")
}

#[test]
fn a_wrong_verdict_is_a_difference() {
    check(
        |seen| applied(seen).verdict = "SECOND_PAYMENT".to_owned(),
        &["verdict: expected APPLIED, found SECOND_PAYMENT"],
    );
}

#[test]
fn a_doubly_applied_payment_is_a_difference() {
    check(
        |seen| {
            let again = applied(seen).clone();
            seen.payments.get_or_insert_default().push(again);
        },
        &["expected no such payment, or only once"],
    );
    check(
        |seen| {
            let mut again = seen.history.last().expect("it was paid").clone();
            again.version = 3;
            seen.history.push(again);
        },
        &[
            "a step from PAID",
            "applied steps: expected 2, found 3",
            "applied payments: expected 1, found 2",
        ],
    );
}

#[test]
fn a_missing_payment_is_a_difference() {
    check(
        |seen| {
            seen.payments
                .get_or_insert_default()
                .retain(|p| p.verdict != "APPLIED");
        },
        &["expected APPLIED, found no such payment"],
    );
}

#[test]
fn a_lost_order_is_a_difference() {
    check(
        |seen| {
            seen.order = None;
            seen.history.clear();
        },
        &["expected PAID, found 404"],
    );
}

#[test]
fn a_gap_in_the_history_is_a_difference() {
    check(
        |seen| seen.history.iter_mut().for_each(|item| item.version += 1),
        &["version 1 in this place", "version 2 in this place"],
    );
}

#[test]
fn an_event_id_of_no_message_is_a_difference() {
    check(
        |seen| applied(seen).event_id = Some("ev-1".to_owned()),
        &["event_id: expected one of its messages, found ev-1"],
    );
}

/// What the model would publish, with one thing spoiled.
fn followed(spoil: impl FnOnce(&mut Vec<(String, String, String)>)) -> Vec<String> {
    let plan = plan(1);
    let model = Model::after(&plan, Bug::None);
    let comparison = compared(&plan, &model);
    let transitions = comparison.transitions;
    let mut follow = Follow::new(&plan, "orders.events", &transitions, &comparison.exceptions);
    let mut events = model.events();
    spoil(&mut events);
    for (subject, id, body) in &events {
        follow.take(subject, id, body.as_bytes());
    }
    follow
        .finish()
        .kept()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_complete_stream_shows_no_difference_even_with_repetitions() {
    assert_eq!(followed(|_| {}), [""; 0]);
    assert_eq!(followed(|events| events.extend(events.clone())), [""; 0]);
}

#[test]
fn a_missing_event_is_a_difference() {
    let found = followed(|events| {
        let last_paid = events
            .iter()
            .rposition(|(subject, ..)| subject == "orders.events.paid");
        events.remove(last_paid.expect("orders were paid"));
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].ends_with("expected published in order, found missing"),
        "{found:?}"
    );
}

#[test]
fn events_out_of_order_are_a_difference() {
    let found = followed(|events| {
        let paid = events
            .iter()
            .position(|(subject, ..)| subject == "orders.events.paid");
        let early = events.remove(paid.expect("orders were paid"));
        events.insert(0, early);
    });
    assert!(
        found[0].contains("expected version 1 first, found version 2"),
        "{found:?}"
    );
}

#[test]
fn an_event_with_another_body_is_a_difference() {
    let found = followed(|events| {
        events[0].2 = events[0].2.replace(r#""amount":"#, r#""amount":1"#);
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(", body: expected"), "{found:?}");
}

#[test]
fn a_message_id_without_the_time_of_the_step_is_a_difference() {
    let found = followed(|events| {
        let (without, _) = events[0]
            .1
            .rsplit_once('/')
            .expect("order, version and time");
        events[0].1 = without.to_owned();
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(", Nats-Msg-Id: expected"), "{found:?}");
}

#[test]
fn a_missing_and_a_repeated_exception_are_differences() {
    let plan = plan(1);
    let model = Model::after(&plan, Bug::None);
    let expected = compared(&plan, &model).exceptions;
    let mut seen = model.exceptions();
    seen.remove(0);
    let again = seen[0].clone();
    seen.push(again);
    let found: Vec<_> = compare_exceptions(&plan, &expected, &seen)
        .into_iter()
        .map(|difference| (difference.expected, difference.found))
        .collect();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(found.len(), 2);
    assert!(found.contains(&pair("open", "none")) && found.contains(&pair("one", "2")));
}
