//! Ticks off what must be in the outbound stream, event by event.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::ops::{exception_name, expected_name};
use crate::plan::ExpectedException;
use crate::view::{ExceptionView, HistoryItem};
use crate::words::Verdict;
use crate::{Difference, Differences, Plan};

/// A time of the API in microseconds since 1970; what is no time stays as it is.
pub(crate) fn micros(at: &str) -> String {
    OffsetDateTime::parse(at, &Rfc3339).map_or_else(
        |_| at.to_owned(),
        |at| (at.unix_timestamp_nanos() / 1000).to_string(),
    )
}

/// Follows the stream and ticks off what must be there.
pub(crate) struct Follow<'a> {
    plan: &'a Plan,
    prefix: &'a str,
    transitions: &'a BTreeMap<u32, Vec<HistoryItem>>,
    /// The last version of each order that came in order.
    versions: BTreeMap<u32, usize>,
    steps_missing: usize,
    exceptions_missing: BTreeSet<String>,
    exception_ids: BTreeMap<String, String>,
    differences: Differences,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        prefix: &'a str,
        transitions: &'a BTreeMap<u32, Vec<HistoryItem>>,
        exceptions: &[ExpectedException],
    ) -> Self {
        Self {
            plan,
            prefix,
            transitions,
            versions: BTreeMap::new(),
            steps_missing: transitions.values().map(Vec::len).sum(),
            exceptions_missing: exceptions.iter().map(|e| expected_name(plan, e)).collect(),
            exception_ids: BTreeMap::new(),
            differences: Differences::default(),
        }
    }

    pub(crate) fn missing(&self) -> usize {
        self.steps_missing + self.exceptions_missing.len()
    }

    pub(crate) fn take(&mut self, subject: &str, message_id: &str, body: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(body) else {
            let found: String = String::from_utf8_lossy(body).chars().take(200).collect();
            return self.differs(format!("event on {subject}"), "JSON", found);
        };
        let order_id = event["order_id"].as_str();
        let Some(order) = order_id.and_then(|id| self.plan.order_number(id)) else {
            // An event of another run.
            return;
        };
        if event["event"] == "payment.exception" {
            self.exception(subject, message_id, &event);
        } else {
            self.transition(subject, message_id, order, &event);
        }
    }

    fn transition(&mut self, subject: &str, message_id: &str, order: u32, event: &Value) {
        let order_id = self.plan.order_id(order);
        let version = event["version"]
            .as_u64()
            .and_then(|v| usize::try_from(v).ok());
        let version = version.unwrap_or(0);
        let name = format!("event {order_id}/{version}");
        let steps = self.transitions.get(&order).map_or(&[][..], Vec::as_slice);
        let Some(step) = version.checked_sub(1).and_then(|place| steps.get(place)) else {
            return self.differs(name, "no such transition", event.to_string());
        };
        let last = self.versions.entry(order).or_default();
        // An earlier version is a repetition, which at-least-once allows.
        if version > *last + 1 {
            let expected = format!("version {} first", *last + 1);
            self.differs(name.clone(), expected, format!("version {version}"));
        } else if version == *last + 1 {
            *last = version;
            self.steps_missing -= 1;
        }
        let expected = step_event(self.plan, order, step);
        let word = event_word(step);
        self.same(
            &name,
            "subject",
            &format!("{}.{word}", self.prefix),
            subject,
        );
        let id = format!("{order_id}/{version}/{}", micros(&step.at));
        self.same(&name, "Nats-Msg-Id", &id, message_id);
        self.same(&name, "body", &expected.to_string(), &event.to_string());
    }

    fn exception(&mut self, subject: &str, message_id: &str, event: &Value) {
        let view = match ExceptionView::deserialize(event) {
            Ok(view) => view,
            Err(cause) => {
                let name = format!("event {message_id}");
                let found = format!("{event} ({cause})");
                return self.differs(name, "the contract's exception", found);
            }
        };
        if view.verdict == Verdict::WaitingForOrder.as_str() {
            return;
        }
        let name = exception_name(&view);
        let expected = format!("{}.payment_exception", self.prefix);
        self.same(&name, "subject", &expected, subject);
        self.same(&name, "Nats-Msg-Id", &view.id, message_id);
        match self.exception_ids.get(&name).cloned() {
            Some(known) => self.same(&name, "id", &known, &view.id),
            None if self.exceptions_missing.remove(&name) => {
                self.exception_ids.insert(name, view.id);
            }
            None => self.differs(format!("event of {name}"), "no such exception", view.id),
        }
    }

    fn same(&mut self, name: &str, part: &str, expected: &str, found: &str) {
        let what = format!("{name}, {part}");
        self.differences
            .extend(Difference::between(what, expected, found));
    }

    fn differs(&mut self, what: String, expected: impl Into<String>, found: impl Into<String>) {
        self.differences
            .extend([Difference::new(what, expected, found)]);
    }

    /// What never came is a difference too.
    pub(crate) fn finish(mut self) -> Differences {
        for (order, steps) in self.transitions {
            let last = self.versions.get(order).copied().unwrap_or(0);
            for version in last + 1..=steps.len() {
                let name = format!("event {}/{version}", self.plan.order_id(*order));
                self.differs(name, "published in order", "missing");
            }
        }
        for name in std::mem::take(&mut self.exceptions_missing) {
            self.differs(format!("event of {name}"), "published", "missing");
        }
        self.differences
    }
}

/// The last token of the subject and of the event's name.
fn event_word(step: &HistoryItem) -> &str {
    match step.to.as_deref().unwrap_or_default() {
        "NOT_PAID" => "created",
        "PAID" => "paid",
        "SHIPPED" => "shipped",
        "DONE" => "done",
        "CANCELLED" => "cancelled",
        other => other,
    }
}

/// The event that must have been published about an applied transition.
fn step_event(plan: &Plan, order: u32, step: &HistoryItem) -> Value {
    let planned = plan.order(order);
    let payer = step.paid_by().filter(|_| &*step.event == "pay");
    json!({
        "event": format!("order.{}", event_word(step)),
        "order_id": plan.order_id(order),
        "version": step.version,
        "from": step.from,
        "to": step.to,
        "amount": planned.amount,
        "currency": planned.currency.as_str(),
        "provider": payer.as_ref().map(|payer| &payer.provider),
        "transaction_id": payer.as_ref().map(|payer| &payer.transaction_id),
        "source": step.source,
        "reason": step.reason,
        "at": step.at,
    })
}
