//! Does an order's history explain its status, step by step?

use std::collections::BTreeSet;

use super::Seen;
use crate::ledger::Recorded;
use crate::{Difference, HistoryItem, OrderView, Plan};

pub(super) fn check(
    plan: &Plan,
    number: u32,
    recorded: &[Recorded],
    seen: &Seen,
    found: &mut Vec<Difference>,
) {
    let name = format!("history of {}", plan.order_id(number));
    let mut differ = |expected: &str, seen: String| {
        found.push(Difference::new(name.as_str(), expected, seen));
    };
    let Some(order) = &seen.order else {
        if !seen.history.is_empty() {
            differ("404", format!("{} items", seen.history.len()));
        }
        return;
    };
    applied(order, &seen.history, &mut differ);
    sources(seen, &mut differ);
    refused(plan, recorded, order, &seen.history, &mut differ);
}

fn applied(order: &OrderView, history: &[HistoryItem], differ: &mut impl FnMut(&str, String)) {
    let steps: Vec<&HistoryItem> = history.iter().filter(|item| item.is_applied()).collect();
    let mut status = None;
    for (version, step) in (1u64..).zip(&steps) {
        let found = || format!("version {} {} {}", step.version, step.event, arrow(step));
        if step.version != version {
            differ(&format!("version {version} in this place"), found());
        }
        if step.from.as_deref() != status {
            differ(
                &format!("a step from {}", status.unwrap_or("nothing")),
                found(),
            );
        }
        if !is_legal(step) {
            differ("a legal step", found());
        }
        status = step.to.as_deref();
    }
    if steps.len() as u64 != order.version {
        differ(
            &format!("{} applied steps", order.version),
            steps.len().to_string(),
        );
    }
    if status != Some(order.status.as_str()) {
        differ(
            &format!("a last step to {}", order.status),
            status.unwrap_or("none").to_owned(),
        );
    }
    let paying: Vec<_> = steps.iter().filter(|step| step.event == "pay").collect();
    let expected = usize::from(order.paid_by.is_some());
    if paying.len() != expected {
        differ(
            &format!("{expected} applied payments"),
            paying.len().to_string(),
        );
    }
    for step in paying.iter().filter(|step| step.paid_by() != order.paid_by) {
        differ(
            "the step of paid_by",
            format!("{:?}/{:?}", step.provider, step.transaction_id),
        );
    }
}

/// A step that a payment made, or was refused, came by the way the payment came.
fn sources(seen: &Seen, differ: &mut impl FnMut(&str, String)) {
    for item in seen.history.iter().filter(|item| item.event == "pay") {
        let mut payments = seen.payments.iter().flatten();
        let payment = payments.find(|view| {
            view.kind == "succeeded"
                && item.provider.as_ref() == Some(&view.provider)
                && item.transaction_id.as_ref() == Some(&view.transaction_id)
        });
        if let Some(payment) = payment
            && payment.source != item.source
        {
            let found = format!("{} at version {}", item.source, item.version);
            differ(&format!("source {}", payment.source), found);
        }
    }
}

fn is_legal(step: &HistoryItem) -> bool {
    matches!(
        (
            step.event.as_str(),
            step.from.as_deref(),
            step.to.as_deref()
        ),
        ("create", None, Some("NOT_PAID"))
            | ("pay", Some("NOT_PAID"), Some("PAID"))
            | ("ship", Some("PAID"), Some("SHIPPED"))
            | ("complete", Some("SHIPPED"), Some("DONE"))
            | ("cancel", Some("NOT_PAID"), Some("CANCELLED"))
    )
}

fn arrow(step: &HistoryItem) -> String {
    let word = |status: &Option<String>| status.clone().unwrap_or_else(|| "nothing".to_owned());
    format!("{}→{}", word(&step.from), word(&step.to))
}

/// Refusals are told once per version met, event, reason and transaction, and each refused payment has one.
fn refused(
    plan: &Plan,
    recorded: &[Recorded],
    order: &OrderView,
    history: &[HistoryItem],
    differ: &mut impl FnMut(&str, String),
) {
    let mut known = BTreeSet::new();
    for item in history.iter().filter(|item| !item.is_applied()) {
        let HistoryItem {
            version,
            event,
            reason,
            provider,
            transaction_id,
            ..
        } = item;
        if item.outcome != "refused" {
            differ("outcome applied or refused", item.outcome.clone());
        }
        if *version == 0 || *version > order.version {
            differ(
                "a refusal at a version the order had",
                format!("version {version}"),
            );
        }
        if !known.insert((version, event, reason, provider, transaction_id)) {
            differ(
                "each refusal once",
                format!("{event} {reason:?} {transaction_id:?} again"),
            );
        }
    }
    for refused in recorded
        .iter()
        .filter(|recorded| recorded.verdict.is_refusal())
    {
        let transaction = plan.transaction_id(plan.fact(refused.fact));
        let verdict = refused.verdict.as_str();
        let is_told = history.iter().any(|item| {
            !item.is_applied()
                && item.reason.as_deref() == Some(verdict)
                && item.transaction_id.as_deref() == Some(&transaction)
        });
        if !is_told {
            differ(
                &format!("a refusal {verdict} of {transaction}"),
                "none".to_owned(),
            );
        }
    }
}
