//! How often each scenario is played, how it goes, and what must come out of it: the contract's table of verdicts as small
//! stories.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use super::draft::{Draft, number};
use super::timing::WAVES_MIN;
use super::{Fate, Fault, Outcome, Plan, Recorded, Scenario, whole};
use crate::PlanOptions;
use crate::words::{Kind, Verdict};

/// Plays as many of each scenario as the options ask for.
pub(super) fn play_all(options: &PlanOptions) -> Plan {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut scenarios = cast(options);
    scenarios.shuffle(&mut rng);

    let per_case = (2.0 + options.attempts) * (1.0 + options.duplicates);
    let steps = number(scenarios.len()).saturating_mul(whole(per_case.ceil()));
    let waves = (steps / options.window).max(WAVES_MIN);

    let mut draft = Draft::new(options, rng, waves);
    let count = scenarios.len() as u64;
    for (nth, scenario) in (0u64..).zip(scenarios) {
        let home = nth * u64::from(waves) / count;
        let home = u32::try_from(home).unwrap_or(waves - 1);
        draft.case(scenario, home, |draft| play(scenario, draft));
    }
    let anomalies = options.anomalies;
    let letters = anomalies.dead_letters.unwrap_or(anomalies.each);
    for fault in Fault::ALL {
        (0..letters).for_each(|_| draft.letter(fault));
    }
    draft.finish()
}

fn cast(options: &PlanOptions) -> Vec<Scenario> {
    let share = |count: u32, share: f64| whole((f64::from(count) * share).round()).min(count);
    let unpaid = share(options.orders, options.unpaid);
    let lost = share(options.orders - unpaid, options.lose);
    let anomalies = options.anomalies;
    let anomaly = |count: Option<u32>| count.unwrap_or(anomalies.each);
    let mut cast = Vec::with_capacity(options.orders as usize);
    for scenario in Scenario::ALL {
        let count = match scenario {
            Scenario::Paid => options.orders - unpaid - lost,
            Scenario::Unpaid => unpaid,
            Scenario::Lost => lost,
            Scenario::LostSecondPayment
            | Scenario::LostMismatch
            | Scenario::LostRefund
            | Scenario::LostAfterCancel => options.lost_anomalies,
            Scenario::SecondPayment => anomaly(anomalies.second_payments),
            Scenario::AmountMismatch => anomaly(anomalies.amount_mismatches),
            Scenario::CurrencyMismatch => anomaly(anomalies.currency_mismatches),
            Scenario::Conflict => anomaly(anomalies.conflicts),
            Scenario::Reversal => anomaly(anomalies.reversals),
            Scenario::Unsupported => anomaly(anomalies.unsupported),
            Scenario::NotLive => anomaly(anomalies.not_live),
            Scenario::NeverCreated => anomaly(anomalies.never_created),
            Scenario::CancelRace => options.cancels,
        };
        cast.extend(std::iter::repeat_n(scenario, count as usize));
    }
    cast
}

fn play(scenario: Scenario, draft: &mut Draft<'_>) -> Vec<Outcome> {
    match scenario {
        Scenario::Paid => paid(draft),
        Scenario::Unpaid => unpaid(draft),
        Scenario::Lost => lost(draft),
        Scenario::LostSecondPayment => lost_second_payment(draft),
        Scenario::LostMismatch => lost_mismatch(draft),
        Scenario::LostRefund => lost_refund(draft),
        // The payment comes when the order is cancelled; if the cancellation was refused, it pays the order.
        Scenario::LostAfterCancel => cancel_race(draft, true),
        Scenario::SecondPayment => second_payment(draft),
        Scenario::AmountMismatch => mismatch(draft, Verdict::AmountMismatch).1,
        Scenario::CurrencyMismatch => mismatch(draft, Verdict::CurrencyMismatch).1,
        Scenario::Conflict if draft.chance(0.4) => conflict_over_orders(draft),
        Scenario::Conflict => conflict_over_money(draft),
        Scenario::Reversal => reversal(draft),
        Scenario::Unsupported => unsupported(draft),
        Scenario::NotLive => not_live(draft),
        Scenario::NeverCreated => never_created(draft),
        Scenario::CancelRace => cancel_race(draft, false),
    }
}

fn recorded(fact: u32, verdict: Verdict) -> Recorded {
    Recorded { fact, verdict }
}

fn with(mut before: Vec<Recorded>, more: impl IntoIterator<Item = Recorded>) -> Vec<Recorded> {
    before.extend(more);
    before
}

/// The order is paid by this fact; the payments before it are recorded as they are.
fn paid_by(by: u32, before: Vec<Recorded>) -> Outcome {
    let all = with(before, [recorded(by, Verdict::Applied)]);
    Outcome::of_one(Fate::Paid { by }, all)
}

fn paid(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    vec![paid_by(by, draft.attempts(order, Some(by)))]
}

fn unpaid(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let attempts = draft.attempts(order, None);
    vec![Outcome::of_one(Fate::NotPaid, attempts)]
}

fn lost(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    draft.lose(by);
    let attempts = draft.attempts(order, Some(by));
    vec![if draft.expects_healing() {
        paid_by(by, attempts)
    } else {
        Outcome::of_one(Fate::NotPaid, attempts)
    }]
}

/// Found by the last question about a paid order, or by an earlier question before the event came.
fn lost_second_payment(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let published = draft.fact(order, Kind::Succeeded);
    let lost = draft.fact(order, Kind::Succeeded);
    draft.lose(lost);
    vec![
        paid_by(published, vec![recorded(lost, Verdict::SecondPayment)]),
        paid_by(lost, vec![recorded(published, Verdict::SecondPayment)]),
    ]
}

fn lost_mismatch(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let verdict = draft.pick(&[Verdict::AmountMismatch, Verdict::CurrencyMismatch]);
    let (wrong, outcomes) = mismatch(draft, verdict);
    draft.lose(wrong);
    outcomes
}

fn lost_refund(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    let back = draft.fact(order, Kind::Refunded);
    draft.lose(back);
    vec![paid_by(by, vec![recorded(back, Verdict::Reversed)])]
}

/// The first one judged is applied. Another provider's transaction may have the same id.
fn second_payment(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let first = draft.fact(order, Kind::Succeeded);
    let mut rivals = vec![first];
    let namesake = draft.edit(first).provider;
    match draft.other_provider(namesake) {
        Some(provider) if draft.chance(0.5) => {
            let second = draft.fact_like(first, order, Kind::Succeeded);
            draft.edit(second).provider = provider;
            rivals.push(second);
        }
        _ => rivals.push(draft.fact(order, Kind::Succeeded)),
    }
    if draft.chance(0.3) {
        rivals.push(draft.fact(order, Kind::Succeeded));
    }
    let attempts = draft.attempts(order, None);
    let outcome = |&by: &u32| {
        let others = rivals.iter().filter(|fact| **fact != by);
        let second = others.map(|&fact| recorded(fact, Verdict::SecondPayment));
        paid_by(by, with(attempts.clone(), second))
    };
    rivals.iter().map(outcome).collect()
}

/// The fact with the wrong money, and the allowed outcomes.
fn mismatch(draft: &mut Draft<'_>, verdict: Verdict) -> (u32, Vec<Outcome>) {
    let order = draft.order();
    let wrong = draft.fact(order, Kind::Succeeded);
    let (more, amount_too) = (draft.chance(0.5), draft.chance(0.3));
    let fact = draft.edit(wrong);
    if verdict == Verdict::CurrencyMismatch {
        fact.currency = fact.currency.other();
    }
    if verdict == Verdict::AmountMismatch || amount_too {
        fact.amount = if more {
            fact.amount + 1
        } else {
            fact.amount - 1
        };
    }
    if draft.chance(0.5) {
        let all = vec![recorded(wrong, verdict)];
        return (wrong, vec![Outcome::of_one(Fate::NotPaid, all)]);
    }
    // Once the order is paid, every further success is a second payment, whatever its amount.
    let by = draft.fact(order, Kind::Succeeded);
    let outcomes = [verdict, Verdict::SecondPayment]
        .map(|wrong_verdict| paid_by(by, vec![recorded(wrong, wrong_verdict)]));
    (wrong, outcomes.to_vec())
}

/// One transaction is published for two orders: it is bound to the first one.
fn conflict_over_orders(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let one = draft.order();
    let other = draft.order_like(one);
    let for_one = draft.fact(one, Kind::Succeeded);
    let for_other = draft.fact_like(for_one, other, Kind::Succeeded);
    vec![
        Outcome {
            fates: vec![Fate::Paid { by: for_one }, Fate::NotPaid],
            recorded: vec![recorded(for_one, Verdict::Applied)],
        },
        Outcome {
            fates: vec![Fate::NotPaid, Fate::Paid { by: for_other }],
            recorded: vec![recorded(for_other, Verdict::Applied)],
        },
    ]
}

/// One transaction is published with the right money and with wrong money.
fn conflict_over_money(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let right = draft.fact(order, Kind::Succeeded);
    let wrong = draft.fact_like(right, order, Kind::Succeeded);
    let over_amount = draft.chance(0.5);
    let fact = draft.edit(wrong);
    let verdict = if over_amount {
        fact.amount += 1;
        Verdict::AmountMismatch
    } else {
        fact.currency = fact.currency.other();
        Verdict::CurrencyMismatch
    };
    vec![
        paid_by(right, Vec::new()),
        Outcome::of_one(Fate::NotPaid, vec![recorded(wrong, verdict)]),
    ]
}

/// A success is applied even if its refund came first. A reversal has the success's transaction.
fn reversal(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    let back = if draft.chance(0.5) {
        draft.fact(order, Kind::Refunded)
    } else {
        draft.fact_like(by, order, Kind::Reversed)
    };
    vec![paid_by(by, vec![recorded(back, Verdict::Reversed)])]
}

fn unsupported(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let unknown = draft.fact(order, Kind::PartiallyRefundedV2);
    perhaps_paid(draft, order, vec![recorded(unknown, Verdict::Unsupported)])
}

/// Test money isn't recorded as a payment; it opens an exception only if money would have moved.
fn not_live(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let kinds = [Kind::Succeeded, Kind::Failed, Kind::Refunded];
    let kind = draft.pick(&kinds);
    let test = draft.fact(order, kind);
    draft.edit(test).live = false;
    perhaps_paid(draft, order, Vec::new())
}

fn perhaps_paid(draft: &mut Draft<'_>, order: u32, besides: Vec<Recorded>) -> Vec<Outcome> {
    if draft.chance(0.5) {
        return vec![Outcome::of_one(Fate::NotPaid, besides)];
    }
    let by = draft.fact(order, Kind::Succeeded);
    vec![paid_by(by, besides)]
}

fn never_created(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order_never_created();
    let waiting = draft.fact(order, Kind::Succeeded);
    let attempts = draft.attempts(order, Some(waiting));
    let all = with(attempts, [recorded(waiting, Verdict::WaitingForOrder)]);
    vec![Outcome::of_one(Fate::NeverCreated, all)]
}

/// The payment pays the order, or comes after its cancellation.
fn cancel_race(draft: &mut Draft<'_>, is_lost: bool) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    if is_lost {
        draft.lose(by);
    }
    draft.cancel(order);
    let after_cancel = vec![recorded(by, Verdict::PaidAfterCancel)];
    vec![
        paid_by(by, Vec::new()),
        Outcome::of_one(Fate::Cancelled, after_cancel),
    ]
}
