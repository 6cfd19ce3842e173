//! Is what was seen of a case one of its allowed outcomes? Pure, so that tests can show it each kind of mistake.

use super::{Seen, history};
use crate::difference::Check;
use crate::plan::{Case, Fate, Outcome, Recorded};
use crate::view::{PaidBy, PaymentView};
use crate::{Difference, Plan};

/// The nearest outcome, by its place among the case's outcomes, and how what was seen differs from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nearest {
    pub(crate) outcome: usize,
    pub(crate) differences: Vec<Difference>,
}

/// The outcome that what was seen of a case's orders differs from least.
pub(crate) fn nearest(plan: &Plan, case: &Case, seen: &[Seen]) -> Nearest {
    case.outcomes
        .iter()
        .enumerate()
        .map(|(number, outcome)| Nearest {
            outcome: number,
            differences: differences(plan, case, outcome, seen),
        })
        .min_by_key(|nearest| nearest.differences.len())
        .expect("a case has at least one outcome")
}

fn differences(plan: &Plan, case: &Case, outcome: &Outcome, seen: &[Seen]) -> Vec<Difference> {
    let mut found = Vec::new();
    for ((number, fate), seen) in case.orders.clone().zip(&outcome.fates).zip(seen) {
        let of_order = |recorded: &&Recorded| plan.fact(recorded.fact).order == number;
        let recorded: Vec<Recorded> = outcome.recorded.iter().filter(of_order).copied().collect();
        order(plan, number, *fate, seen, &mut found);
        payments(plan, number, &recorded, seen, &mut found);
        history::check(plan, number, &recorded, seen, &mut found);
    }
    found
}

fn order(plan: &Plan, number: u32, fate: Fate, seen: &Seen, found: &mut Vec<Difference>) {
    let mut order = Check::of(format!("order {}", plan.order_id(number)), found);
    let (status, version, view) = match (fate.state(), &seen.order) {
        (None, None) => return,
        (None, Some(view)) => return order.differs("404", &*view.status),
        (Some((status, _)), None) => return order.differs(status, "404"),
        (Some((status, version)), Some(view)) => (status, version, view),
    };
    order.same("status", status, &view.status);
    order.same("version", &version, &view.version);
    let planned = plan.order(number);
    order.same("id", &plan.order_id(number), &view.order_id);
    order.same("amount", &planned.amount, &view.amount);
    order.same("currency", &planned.currency, &view.currency);
    let payer = match fate {
        Fate::Paid { by } => {
            let fact = plan.fact(by);
            format!("{}/{}", plan.provider(fact), plan.transaction_id(fact))
        }
        Fate::NeverCreated | Fate::NotPaid | Fate::Cancelled => "null".to_owned(),
    };
    order.same("paid_by", &payer, &PaidBy::name(view.paid_by.as_ref()));
}

fn payments(
    plan: &Plan,
    number: u32,
    recorded: &[Recorded],
    seen: &Seen,
    found: &mut Vec<Difference>,
) {
    let order_id = plan.order_id(number);
    let Some(payments) = &seen.payments else {
        if seen.order.is_some() || !recorded.is_empty() {
            let expected = format!("{} payments", recorded.len());
            Check::of(format!("payments of {order_id}"), found).differs(expected, "404");
        }
        return;
    };
    let mut left: Vec<&PaymentView> = payments.iter().collect();
    for recorded in recorded {
        let name = format!("{} of {order_id}", plan.payment_name(recorded.fact));
        let mut check = Check::of(name, found);
        match left
            .iter()
            .position(|view| is_payment(plan, recorded.fact, view))
        {
            Some(place) => payment(plan, *recorded, left.swap_remove(place), &mut check),
            None => check.differs(recorded.verdict.as_str(), "no such payment"),
        }
    }
    for view in left {
        let PaymentView {
            provider,
            transaction_id,
            kind,
            verdict,
            ..
        } = view;
        let name = format!("payment {provider}/{transaction_id}/{kind} of {order_id}");
        Check::of(name, found).differs("no such payment, or only once", &**verdict);
    }
}

/// Whether this is the payment of that fact.
pub(crate) fn is_payment(plan: &Plan, number: u32, view: &PaymentView) -> bool {
    let fact = plan.fact(number);
    view.provider == plan.provider(fact)
        && view.kind == fact.kind.as_str()
        && view.transaction_id == plan.transaction_id(fact)
}

fn payment(plan: &Plan, recorded: Recorded, view: &PaymentView, payment: &mut Check<'_>) {
    let fact = plan.fact(recorded.fact);
    payment.same("verdict", &recorded.verdict, &view.verdict);
    payment.same("order", &plan.order_id(fact.order), &view.order_id);
    payment.same("amount", &fact.amount, &view.amount);
    payment.same("currency", &fact.currency, &view.currency);
    // A reconciliation may have been faster than the event; a lost payment can have no other source.
    let source = if fact.copies > 0 && view.source != "reconciliation" {
        "event"
    } else {
        "reconciliation"
    };
    payment.same("source", source, &view.source);
    let event_id = view.event_id.as_deref();
    if source == "reconciliation" {
        payment.same("event_id", "null", event_id.unwrap_or("null"));
    } else if !event_id.is_some_and(|id| plan.is_event_id(recorded.fact, id)) {
        payment.same(
            "event_id",
            "one of its messages",
            event_id.unwrap_or("null"),
        );
    }
}
