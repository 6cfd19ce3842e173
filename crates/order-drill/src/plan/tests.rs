//! The same seed gives the same bytes, and the ledger never contradicts the messages.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Case, Fate, Fault, Message, Plan, Scenario, Step};
use crate::words::Verdict;
use crate::{Anomalies, PlanOptions};

fn options(seed: u64) -> PlanOptions {
    PlanOptions {
        seed,
        orders: 300,
        lose: 0.05,
        duplicates: 0.2,
        early: 0.2,
        window: 200,
        expect_healed: true,
        lost_anomalies: 6,
        anomalies: Anomalies::each(8),
        cancels: 8,
        ..PlanOptions::default()
    }
}

fn plan(seed: u64) -> Plan {
    Plan::generate(&options(seed))
}

fn bytes(plan: &Plan) -> Vec<Vec<u8>> {
    let message = |step: &Step| match *step {
        Step::Publish(message) => plan.body(plan.message(message)),
        Step::Create(order) => format!("create {order} {:?}", plan.order(order)).into_bytes(),
        Step::Cancel(order) => format!("cancel {order}").into_bytes(),
    };
    plan.steps.iter().map(message).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    assert_eq!(bytes(&plan(7)), bytes(&plan(7)));
    assert_ne!(bytes(&plan(7)), bytes(&plan(8)));
}

#[test]
fn every_outcome_is_consistent() {
    let plan = plan(1);
    for case in &plan.ledger.cases {
        assert!(!case.outcomes.is_empty(), "{case:?}");
        for outcome in &case.outcomes {
            assert_eq!(outcome.fates.len(), case.orders.len(), "{case:?}");
            let keys: BTreeSet<_> = outcome
                .recorded
                .iter()
                .map(|r| plan.fact(r.fact).key())
                .collect();
            assert_eq!(
                keys.len(),
                outcome.recorded.len(),
                "a key recorded twice: {case:?}"
            );
            assert!(
                outcome
                    .recorded
                    .iter()
                    .all(|r| case.facts.contains(&r.fact))
            );
            assert!(outcome.recorded.iter().all(|r| r.verdict.is_stored()));
            for (order, fate) in case.orders.clone().zip(&outcome.fates) {
                let applied: Vec<u32> = outcome
                    .recorded
                    .iter()
                    .filter(|r| r.verdict == Verdict::Applied && plan.fact(r.fact).order == order)
                    .map(|r| r.fact)
                    .collect();
                match fate {
                    Fate::Paid { by } => assert_eq!(applied, [*by], "{case:?}"),
                    _ => assert_eq!(applied, [0; 0], "{case:?}"),
                }
            }
        }
    }
}

#[test]
fn no_two_cases_touch_the_same_order_or_payment() {
    let plan = plan(2);
    let (mut orders, mut facts, mut keys) = (0, 0, BTreeMap::new());
    for (number, case) in plan.ledger.cases.iter().enumerate() {
        assert_eq!((case.orders.start, case.facts.start), (orders, facts));
        (orders, facts) = (case.orders.end, case.facts.end);
        for fact in case.facts.clone() {
            assert!(case.orders.contains(&plan.fact(fact).order));
            let owner = *keys.entry(plan.fact(fact).key()).or_insert(number);
            assert_eq!(owner, number, "{case:?}");
        }
    }
    assert_eq!(orders as usize, plan.orders.len());
    assert_eq!(facts as usize, plan.facts.len());
}

#[test]
fn each_fact_is_published_as_often_as_the_ledger_says() {
    let plan = plan(3);
    let mut published = vec![0u16; plan.facts.len()];
    let mut labels = BTreeSet::new();
    for step in &plan.steps {
        if let Step::Publish(number) = step
            && let Message::Payment { fact, label } = plan.message(*number)
        {
            published[fact as usize] += 1;
            labels.insert(label != 0);
        }
    }
    let copies: Vec<u16> = plan.facts.iter().map(|fact| fact.copies).collect();
    assert_eq!(published, copies);
    assert_eq!(
        labels.len(),
        2,
        "duplicates come with the same and with other event ids"
    );
    assert!([2, 3, 10].iter().all(|times| copies.contains(times)));
}

#[test]
fn every_anomaly_occurs_as_often_as_asked() {
    let plan = plan(4);
    let count = |scenario| {
        plan.ledger
            .cases
            .iter()
            .filter(|c| c.scenario == scenario)
            .count()
    };
    for scenario in Scenario::ALL {
        let expected = match scenario {
            Scenario::Unpaid => 30,
            Scenario::Lost => 14,
            Scenario::Paid => 256,
            Scenario::LostSecondPayment
            | Scenario::LostMismatch
            | Scenario::LostRefund
            | Scenario::LostAfterCancel => 6,
            _ => 8,
        };
        assert_eq!(count(scenario), expected, "{scenario:?}");
    }
    assert_eq!(plan.letters.len(), Fault::ALL.len() * 8);
    assert_eq!(plan.lost().count(), 14 + 4 * 6);
    assert_eq!(plan.to_heal().count(), 14 + 4 * 6);
}

/// The wave of the first step that is this one.
fn wave_of(plan: &Plan, is: impl Fn(&Step) -> bool) -> Option<usize> {
    plan.waves().position(|wave| wave.iter().any(&is))
}

fn created_in(plan: &Plan, case: &Case) -> Option<usize> {
    wave_of(
        plan,
        |step| matches!(step, Step::Create(order) if case.orders.contains(order)),
    )
}

fn published_in(plan: &Plan, case: &Case) -> Option<usize> {
    wave_of(plan, |step| {
        matches!(step, Step::Publish(message)
            if matches!(plan.message(*message), Message::Payment { fact, .. } if case.facts.contains(&fact)))
    })
}

#[test]
fn an_early_event_is_stored_a_wave_before_its_order() {
    let options = PlanOptions {
        early: 1.0,
        orders: 60,
        ..options(5)
    };
    let plan = Plan::generate(&options);
    let mut distances = BTreeSet::new();
    for case in plan
        .ledger
        .cases
        .iter()
        .filter(|case| case.scenario != Scenario::CancelRace)
    {
        if let (Some(created), Some(published)) =
            (created_in(&plan, case), published_in(&plan, case))
        {
            assert!(published < created, "{case:?}");
            distances.insert(created - published);
        }
    }
    assert!(distances.len() > 1, "some clearly later: {distances:?}");
}

#[test]
fn an_order_is_cancelled_only_after_it_was_created() {
    let plan = plan(6);
    for case in &plan.ledger.cases {
        if !matches!(
            case.scenario,
            Scenario::CancelRace | Scenario::LostAfterCancel
        ) {
            continue;
        }
        let cancelled = wave_of(
            &plan,
            |step| matches!(step, Step::Cancel(order) if case.orders.contains(order)),
        );
        assert!(created_in(&plan, case) < cancelled, "{case:?}");
        let is_lost = case.scenario == Scenario::LostAfterCancel;
        assert_eq!(published_in(&plan, case), cancelled.filter(|_| !is_lost));
    }
}

#[test]
fn a_lost_success_is_healed_only_if_that_is_expected() {
    for (expect_healed, status) in [(false, "NOT_PAID"), (true, "PAID")] {
        let options = PlanOptions {
            lose: 1.0,
            unpaid: 0.0,
            expect_healed,
            lost_anomalies: 0,
            ..options(1)
        };
        let plan = Plan::generate(&options);
        let lost: Vec<_> = plan
            .ledger
            .cases
            .iter()
            .filter(|c| c.scenario == Scenario::Lost)
            .collect();
        assert_eq!(lost.len(), 300);
        for case in lost {
            let states: Vec<_> = case
                .outcomes
                .iter()
                .map(|o| o.fates[0].state().map(|(status, _)| status))
                .collect();
            assert_eq!(states, [Some(status)]);
        }
        let to_heal = if expect_healed { 300 } else { 0 };
        assert_eq!(plan.to_heal().count(), to_heal);
    }
}

#[test]
fn ids_are_as_the_contract_wants_them() {
    let options = PlanOptions {
        prefix: "d".repeat(40),
        ..options(9)
    };
    let plan = Plan::generate(&options);
    let messages = plan
        .messages
        .iter()
        .copied()
        .filter(|m| matches!(m, Message::Payment { .. }));
    for message in messages {
        let event: Value = serde_json::from_slice(&plan.body(message)).expect("events are JSON");
        for field in ["event_id", "order_id", "transaction_id"] {
            let id = event[field].as_str().expect("ids are strings");
            assert!((1..=64).contains(&id.len()), "{field} {id}");
            assert!(
                id.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
            );
        }
        assert_eq!(event["provider"], plan.subject_provider(message));
        assert!(event["amount"].as_u64().is_some_and(|amount| amount > 0));
    }
    for order in 0..u32::try_from(plan.orders.len()).expect("few") {
        assert_eq!(plan.order_number(&plan.order_id(order)), Some(order));
    }
    assert_eq!(plan.order_number("another-o1"), None);
}

#[test]
fn a_letter_has_the_fault_it_is_named_after() {
    let plan = plan(10);
    for (letter, fault) in (0u32..).zip(&plan.letters) {
        let body = plan.body(Message::Letter { letter });
        let is_utf8 = std::str::from_utf8(&body).is_ok();
        let is_json = serde_json::from_slice::<Value>(&body).is_ok();
        assert_eq!(is_utf8, *fault != Fault::BrokenUtf8, "{fault:?}");
        assert_eq!(
            is_json,
            !matches!(fault, Fault::BrokenUtf8 | Fault::CutShort),
            "{fault:?}"
        );
        assert_eq!(
            body.len() > 64 * 1024,
            *fault == Fault::TooLarge,
            "{fault:?}"
        );
        assert!(plan.letter_kept(letter).len() <= 64 * 1024);
        assert!(!fault.reasons().is_empty());
    }
}

#[test]
fn a_million_messages_fit_into_modest_memory() {
    assert!(size_of::<Message>() <= 8);
    assert!(size_of::<Step>() <= 8);
    assert!(size_of::<super::Fact>() <= 24);
    assert!(size_of::<Case>() <= 48);
}
