//! Ticks off what must be in the outbound stream, event by event.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::Trail;
use crate::ledger::ExpectedException;
use crate::ops::{exception_name, expected_name};
use crate::view::ExceptionView;
use crate::{Difference, Differences, Plan, Verdict};

/// Follows the stream and ticks off what must be there.
pub(crate) struct Follow<'a> {
    plan: &'a Plan,
    prefix: &'a str,
    trails: &'a BTreeMap<u32, Trail>,
    told: BTreeMap<u32, usize>,
    steps_missing: usize,
    exceptions_missing: BTreeSet<String>,
    exception_ids: BTreeMap<String, String>,
    differences: Differences,
}

impl<'a> Follow<'a> {
    pub(crate) fn new(
        plan: &'a Plan,
        prefix: &'a str,
        trails: &'a BTreeMap<u32, Trail>,
        exceptions: &[ExpectedException],
    ) -> Self {
        Self {
            plan,
            prefix,
            trails,
            told: BTreeMap::new(),
            steps_missing: trails.values().map(Trail::len).sum(),
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
            let found = String::from_utf8_lossy(body)
                .chars()
                .take(200)
                .collect::<String>();
            self.differ(format!("event on {subject}"), "JSON", found);
            return;
        };
        let Some(order) = event["order_id"]
            .as_str()
            .and_then(|id| self.plan.order_number(id))
        else {
            // Of another run.
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
            .and_then(|v| usize::try_from(v).ok())
            .unwrap_or(0);
        let name = format!("event {order_id}/{version}");
        let trails = self.trails;
        let step = trails.get(&order).and_then(|trail| trail.step(version));
        let Some(step) = step else {
            return self.differ(name, "no such transition", event.to_string());
        };
        let told = self.told.entry(order).or_default();
        // A version told before is a repetition, which at-least-once allows.
        if version > *told + 1 {
            let expected = format!("version {} first", *told + 1);
            self.differ(name.clone(), expected, format!("version {version}"));
        } else if version == *told + 1 {
            *told = version;
            self.steps_missing -= 1;
        }
        self.same(
            &name,
            "subject",
            &format!("{}.{}", self.prefix, step.word()),
            subject,
        );
        self.same(
            &name,
            "Nats-Msg-Id",
            &format!("{order_id}/{version}"),
            message_id,
        );
        let expected = step.event(self.plan, order, version);
        self.same(&name, "body", &expected.to_string(), &event.to_string());
    }

    fn exception(&mut self, subject: &str, message_id: &str, event: &Value) {
        let view = match ExceptionView::deserialize(event) {
            Ok(view) => view,
            Err(cause) => {
                return self.differ(
                    format!("event {message_id}"),
                    "the contract's exception",
                    format!("{event} ({cause})"),
                );
            }
        };
        if view.verdict == Verdict::WaitingForOrder.as_str() {
            return;
        }
        let name = exception_name(&view);
        self.same(
            &name,
            "subject",
            &format!("{}.payment_exception", self.prefix),
            subject,
        );
        self.same(&name, "Nats-Msg-Id", &view.id, message_id);
        match self.exception_ids.get(&name).cloned() {
            Some(known) => self.same(&name, "id", &known, &view.id),
            None if self.exceptions_missing.remove(&name) => {
                self.exception_ids.insert(name, view.id);
            }
            None => self.differ(format!("event of {name}"), "no such exception", view.id),
        }
    }

    fn same(&mut self, name: &str, what: &str, expected: &str, found: &str) {
        if expected != found {
            self.differ(format!("{name}, {what}"), expected, found);
        }
    }

    fn differ(
        &mut self,
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.differences
            .push(Difference::new(what, expected, found));
    }

    /// What never came is a difference too.
    pub(crate) fn finish(mut self) -> Differences {
        for (&order, trail) in self.trails {
            let told = self.told.get(&order).copied().unwrap_or(0);
            for version in told + 1..=trail.len() {
                let name = format!("event {}/{version}", self.plan.order_id(order));
                self.differences
                    .push(Difference::new(name, "told in order", "missing"));
            }
        }
        for name in std::mem::take(&mut self.exceptions_missing) {
            self.differ(format!("event of {name}"), "told", "missing");
        }
        self.differences
    }
}
