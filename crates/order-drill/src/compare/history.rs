//! Does an order's history explain its status, step by step?

use std::collections::BTreeSet;

use super::Seen;
use crate::difference::Check;
use crate::plan::Recorded;
use crate::view::{HistoryItem, OrderView, PaidBy};
use crate::{Difference, Plan};

pub(super) fn check(
    plan: &Plan,
    number: u32,
    recorded: &[Recorded],
    seen: &Seen,
    found: &mut Vec<Difference>,
) {
    let mut history = Check::of(format!("history of {}", plan.order_id(number)), found);
    let Some(order) = &seen.order else {
        if !seen.history.is_empty() {
            history.differs("404", format!("{} items", seen.history.len()));
        }
        return;
    };
    applied(order, &seen.history, &mut history);
    sources(seen, &mut history);
    refused(plan, recorded, order, &seen.history, &mut history);
}

fn applied(order: &OrderView, items: &[HistoryItem], history: &mut Check<'_>) {
    let steps: Vec<&HistoryItem> = items.iter().filter(|item| item.is_applied()).collect();
    let mut status = None;
    for (version, step) in (1u64..).zip(&steps) {
        let found = || format!("version {} {} {}", step.version, step.event, arrow(step));
        if step.version != version {
            history.differs(format!("version {version} in this place"), found());
        }
        if step.from.as_deref() != status {
            let from = status.unwrap_or("null");
            history.differs(format!("a step from {from}"), found());
        }
        if !is_legal(step) {
            history.differs("a legal step", found());
        }
        status = step.to.as_deref();
    }
    let last = status.unwrap_or("null");
    history.same("applied steps", &order.version, &steps.len());
    history.same("last step to", &order.status, last);
    let paying: Vec<_> = steps.iter().filter(|step| &*step.event == "pay").collect();
    let payers = usize::from(order.paid_by.is_some());
    history.same("applied payments", &payers, &paying.len());
    let payer = PaidBy::name(order.paid_by.as_ref());
    for step in paying {
        history.same(
            "paying step",
            &payer,
            &PaidBy::name(step.paid_by().as_ref()),
        );
    }
}

/// A step of a payment, applied or refused, has the payment's source.
fn sources(seen: &Seen, history: &mut Check<'_>) {
    for item in seen.history.iter().filter(|item| &*item.event == "pay") {
        let mut payments = seen.payments.iter().flatten();
        let payment = payments.find(|view| {
            view.kind == "succeeded"
                && item.provider.as_deref() == Some(&view.provider)
                && item.transaction_id.as_deref() == Some(&view.transaction_id)
        });
        if let Some(payment) = payment {
            let part = format!("source at version {}", item.version);
            history.same(&part, &payment.source, &item.source);
        }
    }
}

fn is_legal(step: &HistoryItem) -> bool {
    matches!(
        (&*step.event, step.from.as_deref(), step.to.as_deref()),
        ("create", None, Some("NOT_PAID"))
            | ("pay", Some("NOT_PAID"), Some("PAID"))
            | ("ship", Some("PAID"), Some("SHIPPED"))
            | ("complete", Some("SHIPPED"), Some("DONE"))
            | ("cancel", Some("NOT_PAID"), Some("CANCELLED"))
    )
}

fn arrow(step: &HistoryItem) -> String {
    let from = step.from.as_deref().unwrap_or("null");
    let to = step.to.as_deref().unwrap_or("null");
    format!("{from}→{to}")
}

/// A refusal stands once per version, event, reason and transaction, and each refused payment has one.
fn refused(
    plan: &Plan,
    recorded: &[Recorded],
    order: &OrderView,
    items: &[HistoryItem],
    history: &mut Check<'_>,
) {
    let mut known = BTreeSet::new();
    for item in items.iter().filter(|item| !item.is_applied()) {
        let HistoryItem {
            version,
            event,
            reason,
            provider,
            transaction_id,
            outcome,
            ..
        } = item;
        if &**outcome != "refused" {
            history.differs("outcome applied or refused", &**outcome);
        }
        if *version == 0 || *version > order.version {
            let found = format!("version {version}");
            history.differs("a refusal at a version the order had", found);
        }
        if !known.insert((version, event, reason, provider, transaction_id)) {
            let found = format!("{event} {reason:?} {transaction_id:?} again");
            history.differs("each refusal once", found);
        }
    }
    for refused in recorded.iter().filter(|it| it.verdict.is_refusal()) {
        let transaction = plan.transaction_id(plan.fact(refused.fact));
        let verdict = refused.verdict.as_str();
        let has_refusal = items.iter().any(|item| {
            !item.is_applied()
                && item.reason.as_deref() == Some(verdict)
                && item.transaction_id.as_deref() == Some(&transaction)
        });
        if !has_refusal {
            history.differs(format!("a refusal {verdict} of {transaction}"), "none");
        }
    }
}
