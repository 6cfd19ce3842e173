//! What the history says must have been published.

use serde_json::{Value, json};

use crate::Plan;
use crate::view::HistoryItem;

/// The applied transitions of an order, as its history tells them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail {
    steps: Vec<TrailStep>,
}

/// Boxed, because a big run keeps hundreds of thousands.
#[derive(Debug, Clone)]
pub(super) struct TrailStep {
    from: Option<Box<str>>,
    to: Box<str>,
    source: Box<str>,
    reason: Option<Box<str>>,
    at: Box<str>,
    paid_by: Option<(Box<str>, Box<str>)>,
}

impl Trail {
    pub(crate) fn of(history: &[HistoryItem]) -> Self {
        let boxed = |text: &Option<String>| text.as_deref().map(Box::from);
        let step = |item: &HistoryItem| TrailStep {
            from: boxed(&item.from),
            to: item.to.as_deref().unwrap_or_default().into(),
            source: item.source.as_str().into(),
            reason: boxed(&item.reason),
            at: item.at.as_str().into(),
            paid_by: item
                .paid_by()
                .filter(|_| item.event == "pay")
                .map(|by| (by.provider.into(), by.transaction_id.into())),
        };
        Self {
            steps: history
                .iter()
                .filter(|item| item.is_applied())
                .map(step)
                .collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The step to this version.
    pub(super) fn step(&self, version: usize) -> Option<&TrailStep> {
        self.steps.get(version.checked_sub(1)?)
    }
}

impl TrailStep {
    /// The last token of the subject and the event's name.
    pub(super) fn word(&self) -> &str {
        match &*self.to {
            "NOT_PAID" => "created",
            "PAID" => "paid",
            "SHIPPED" => "shipped",
            "DONE" => "done",
            "CANCELLED" => "cancelled",
            other => other,
        }
    }

    pub(super) fn event(&self, plan: &Plan, order: u32, version: usize) -> Value {
        let planned = plan.order(order);
        json!({
            "event": format!("order.{}", self.word()),
            "order_id": plan.order_id(order),
            "version": version,
            "from": self.from,
            "to": self.to,
            "amount": planned.amount,
            "currency": planned.currency.as_str(),
            "provider": self.paid_by.as_ref().map(|(provider, _)| provider),
            "transaction_id": self.paid_by.as_ref().map(|(_, transaction)| transaction),
            "source": self.source,
            "reason": self.reason,
            "at": self.at,
        })
    }
}
