//! How each scenario goes, and what must come out of it: the contract's table of verdicts as small stories.

use super::Scenario;
use super::draft::Draft;
use crate::ledger::{Fate, Outcome, Recorded};
use crate::{Kind, Verdict};

pub(super) fn play(scenario: Scenario, draft: &mut Draft<'_>) -> Vec<Outcome> {
    match scenario {
        Scenario::Paid => paid(draft),
        Scenario::Unpaid => unpaid(draft),
        Scenario::Lost => lost(draft),
        Scenario::LostSecondPayment => lost_second_payment(draft),
        Scenario::LostMismatch => lost_mismatch(draft),
        Scenario::LostRefund => lost_refund(draft),
        Scenario::LostAfterCancel => lost_after_cancel(draft),
        Scenario::SecondPayment => second_payment(draft),
        Scenario::AmountMismatch => mismatch(draft, Verdict::AmountMismatch).1,
        Scenario::CurrencyMismatch => mismatch(draft, Verdict::CurrencyMismatch).1,
        Scenario::Conflict if draft.chance(0.4) => conflict_over_orders(draft),
        Scenario::Conflict => conflict_over_money(draft),
        Scenario::Reversal => reversal(draft),
        Scenario::Unsupported => unsupported(draft),
        Scenario::NotLive => not_live(draft),
        Scenario::NeverCreated => never_created(draft),
        Scenario::CancelRace => cancel_race(draft),
    }
}

fn recorded(fact: u32, verdict: Verdict) -> Recorded {
    Recorded { fact, verdict }
}

fn with(mut before: Vec<Recorded>, more: impl IntoIterator<Item = Recorded>) -> Vec<Recorded> {
    before.extend(more);
    before
}

fn paid(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    let attempts = draft.attempts(order, Some(by));
    let all = with(attempts, [recorded(by, Verdict::Applied)]);
    vec![Outcome::of_one(Fate::Paid { by }, all)]
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
    if draft.expects_healing() {
        let all = with(attempts, [recorded(by, Verdict::Applied)]);
        vec![Outcome::of_one(Fate::Paid { by }, all)]
    } else {
        vec![Outcome::of_one(Fate::NotPaid, attempts)]
    }
}

/// Found by the last question about an order that is paid; unless an earlier one told of it before the event came.
fn lost_second_payment(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let told = draft.fact(order, Kind::Succeeded);
    let lost = draft.fact(order, Kind::Succeeded);
    draft.lose(lost);
    [(told, lost), (lost, told)]
        .map(|(by, other)| {
            let all = vec![
                recorded(by, Verdict::Applied),
                recorded(other, Verdict::SecondPayment),
            ];
            Outcome::of_one(Fate::Paid { by }, all)
        })
        .to_vec()
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
    let all = vec![
        recorded(by, Verdict::Applied),
        recorded(back, Verdict::Reversed),
    ];
    vec![Outcome::of_one(Fate::Paid { by }, all)]
}

/// The money comes when the order is gone; if the cancelling was refused, it pays the order.
fn lost_after_cancel(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    draft.lose(by);
    draft.cancel(order);
    cancelled_or_paid(by)
}

/// Whichever is judged first is applied; another provider's transaction may well have the same id.
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
        let verdict = |fact| {
            if fact == by {
                Verdict::Applied
            } else {
                Verdict::SecondPayment
            }
        };
        let all = rivals.iter().map(|&fact| recorded(fact, verdict(fact)));
        Outcome::of_one(Fate::Paid { by }, with(attempts.clone(), all))
    };
    rivals.iter().map(outcome).collect()
}

/// The fact with the wrong money, and what may come out.
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
    // Of a paid order every further success is a second payment, whatever its amount.
    let by = draft.fact(order, Kind::Succeeded);
    let outcomes = [verdict, Verdict::SecondPayment].map(|wrong_verdict| {
        let all = vec![
            recorded(wrong, wrong_verdict),
            recorded(by, Verdict::Applied),
        ];
        Outcome::of_one(Fate::Paid { by }, all)
    });
    (wrong, outcomes.to_vec())
}

/// One transaction said to pay two orders: it is bound to the first one it was told with.
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

/// One transaction told with the right money and with wrong money.
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
        Outcome::of_one(
            Fate::Paid { by: right },
            vec![recorded(right, Verdict::Applied)],
        ),
        Outcome::of_one(Fate::NotPaid, vec![recorded(wrong, verdict)]),
    ]
}

/// A success is applied even if its refund was seen first; a reversal may have the success's own transaction id.
fn reversal(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    let back = if draft.chance(0.5) {
        draft.fact(order, Kind::Refunded)
    } else {
        draft.fact_like(by, order, Kind::Reversed)
    };
    let all = vec![
        recorded(by, Verdict::Applied),
        recorded(back, Verdict::Reversed),
    ];
    vec![Outcome::of_one(Fate::Paid { by }, all)]
}

fn unsupported(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let unknown = draft.fact(order, Kind::PartiallyRefundedV2);
    perhaps_paid(draft, order, vec![recorded(unknown, Verdict::Unsupported)])
}

/// Test money leaves no payment behind; only what would have moved money opens an exception.
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
    vec![Outcome::of_one(
        Fate::Paid { by },
        with(besides, [recorded(by, Verdict::Applied)]),
    )]
}

fn never_created(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order_never_created();
    let waiting = draft.fact(order, Kind::Succeeded);
    let attempts = draft.attempts(order, Some(waiting));
    let all = with(attempts, [recorded(waiting, Verdict::WaitingForOrder)]);
    vec![Outcome::of_one(Fate::NeverCreated, all)]
}

fn cancel_race(draft: &mut Draft<'_>) -> Vec<Outcome> {
    let order = draft.order();
    let by = draft.fact(order, Kind::Succeeded);
    draft.cancel(order);
    cancelled_or_paid(by)
}

fn cancelled_or_paid(by: u32) -> Vec<Outcome> {
    vec![
        Outcome::of_one(Fate::Paid { by }, vec![recorded(by, Verdict::Applied)]),
        Outcome::of_one(
            Fate::Cancelled,
            vec![recorded(by, Verdict::PaidAfterCancel)],
        ),
    ]
}
