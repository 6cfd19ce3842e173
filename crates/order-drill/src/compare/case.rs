//! Is what was seen of a case one of its allowed outcomes? Pure, so that it can be shown to go red.

use super::history;
use crate::ledger::{Case, Fate, Outcome, Recorded};
use crate::{Difference, HistoryItem, OrderView, PaidBy, PaymentView, Plan};

/// What was seen of an order.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The order; nothing if it doesn't exist.
    pub order: Option<OrderView>,
    /// Its history, oldest first.
    pub history: Vec<HistoryItem>,
    /// Its payments; nothing if neither it nor a payment exists.
    pub payments: Option<Vec<PaymentView>>,
}

/// The nearest outcome, and how what was seen differs from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Its place among the case's outcomes.
    pub outcome: usize,
    /// None if it is exactly this outcome.
    pub differences: Vec<Difference>,
}

/// Judges what was seen of a case's orders, in their order, by the outcome that explains most of it.
pub fn judge(plan: &Plan, case: &Case, seen: &[Seen]) -> Judged {
    case.outcomes
        .iter()
        .enumerate()
        .map(|(number, outcome)| Judged {
            outcome: number,
            differences: differences(plan, case, outcome, seen),
        })
        .min_by_key(|judged| judged.differences.len())
        .expect("a case has at least one outcome")
}

fn differences(plan: &Plan, case: &Case, outcome: &Outcome, seen: &[Seen]) -> Vec<Difference> {
    let mut found = Vec::new();
    for ((number, fate), seen) in case.orders.clone().zip(&outcome.fates).zip(seen) {
        let recorded: Vec<Recorded> = outcome
            .recorded
            .iter()
            .copied()
            .filter(|recorded| plan.fact(recorded.fact).order == number)
            .collect();
        order(plan, number, *fate, seen, &mut found);
        payments(plan, number, &recorded, seen, &mut found);
        history::check(plan, number, &recorded, seen, &mut found);
    }
    found
}

fn order(plan: &Plan, number: u32, fate: Fate, seen: &Seen, found: &mut Vec<Difference>) {
    let name = format!("order {}", plan.order_id(number));
    let mut differ = |what: &str, expected: String, seen: String| {
        if expected != seen {
            found.push(Difference::new(
                format!("{name} {what}").trim_end(),
                expected,
                seen,
            ));
        }
    };
    let view = match (fate.state(), &seen.order) {
        (None, None) => return,
        (None, Some(view)) => return differ("", "404".to_owned(), view.status.clone()),
        (Some((status, _)), None) => {
            return differ("", status.as_str().to_owned(), "404".to_owned());
        }
        (Some((status, version)), Some(view)) => {
            differ("status", status.as_str().to_owned(), view.status.clone());
            differ("version", version.to_string(), view.version.to_string());
            view
        }
    };
    let planned = plan.order(number);
    differ("id", plan.order_id(number), view.order_id.clone());
    differ(
        "amount",
        planned.amount.to_string(),
        view.amount.to_string(),
    );
    differ(
        "currency",
        planned.currency.as_str().to_owned(),
        view.currency.clone(),
    );
    let payer = |paid_by: Option<&PaidBy>| {
        paid_by.map_or_else(
            || "nobody".to_owned(),
            |by| format!("{}/{}", by.provider, by.transaction_id),
        )
    };
    let expected = match fate {
        Fate::Paid { by } => {
            let fact = plan.fact(by);
            Some(PaidBy {
                provider: plan.provider(fact).to_owned(),
                transaction_id: plan.transaction_id(fact),
            })
        }
        Fate::NeverCreated | Fate::NotPaid | Fate::Cancelled => None,
    };
    differ(
        "paid_by",
        payer(expected.as_ref()),
        payer(view.paid_by.as_ref()),
    );
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
            found.push(Difference::new(
                format!("payments of {order_id}"),
                expected,
                "404",
            ));
        }
        return;
    };
    let mut left: Vec<&PaymentView> = payments.iter().collect();
    for recorded in recorded {
        let name = format!("{} of {order_id}", plan.payment_name(recorded.fact));
        match left
            .iter()
            .position(|view| is_payment(plan, recorded.fact, view))
        {
            Some(place) => payment(plan, *recorded, left.swap_remove(place), &name, found),
            None => found.push(Difference::new(
                name,
                recorded.verdict.as_str(),
                "no such payment",
            )),
        }
    }
    found.extend(left.iter().map(|view| {
        let PaymentView {
            provider,
            transaction_id,
            kind,
            verdict,
            ..
        } = view;
        let name = format!("payment {provider}/{transaction_id}/{kind} of {order_id}");
        Difference::new(name, "no such payment, or not twice", verdict.clone())
    }));
}

/// Whether this is the payment of that fact.
pub(crate) fn is_payment(plan: &Plan, number: u32, view: &PaymentView) -> bool {
    let fact = plan.fact(number);
    view.provider == plan.provider(fact)
        && view.kind == fact.kind.as_str()
        && view.transaction_id == plan.transaction_id(fact)
}

fn payment(
    plan: &Plan,
    recorded: Recorded,
    view: &PaymentView,
    name: &str,
    found: &mut Vec<Difference>,
) {
    let fact = plan.fact(recorded.fact);
    let mut differ = |what: &str, expected: &str, seen: &str| {
        if expected != seen {
            found.push(Difference::new(format!("{name}, {what}"), expected, seen));
        }
    };
    differ("verdict", recorded.verdict.as_str(), &view.verdict);
    differ("order", &plan.order_id(fact.order), &view.order_id);
    differ("amount", &fact.amount.to_string(), &view.amount.to_string());
    differ("currency", fact.currency.as_str(), &view.currency);
    // A reconciliation may have been faster than the event; of a lost one nobody else can have told.
    let source = if fact.copies > 0 && view.source != "reconciliation" {
        "event"
    } else {
        "reconciliation"
    };
    differ("source", source, &view.source);
    match &view.event_id {
        Some(event_id) if source == "event" && !plan.is_event_id(recorded.fact, event_id) => {
            differ("event", "one that told it", event_id);
        }
        Some(event_id) if source == "reconciliation" => differ("event", "none", event_id),
        None if source == "event" => differ("event", "one that told it", "none"),
        Some(_) | None => {}
    }
}
