//! What the mock answers: per order, by the start of the id, or by a rule; and what goes wrong.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::{Answer, Fault};

type Rule = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// What the mock answers. Of an order it says the first that is there: what was set for it, the rule's answer, that of the
/// longest fitting start of its id, nothing.
#[derive(Clone, Default)]
pub struct Script {
    orders: BTreeMap<String, Answer>,
    starts: BTreeMap<String, Answer>,
    rule: Option<Rule>,
    faults: Faults,
    limit: Option<u32>,
}

#[derive(Debug, Clone, Default)]
struct Faults {
    next: VecDeque<Option<Fault>>,
    poison: BTreeMap<String, Fault>,
    every: Vec<(u64, Fault)>,
    always: Option<Fault>,
}

impl Script {
    /// The same answer for every order.
    pub fn all(answer: Answer) -> Self {
        let mut script = Self::default();
        script.set_start("", answer);
        script
    }

    /// An answer made up when it is asked for: an order each needs no row of its own.
    pub fn by(rule: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            rule: Some(Arc::new(rule)),
            ..Self::default()
        }
    }

    /// What is answered for this order.
    pub fn set(&mut self, order_id: impl Into<String>, answer: Answer) {
        self.orders.insert(order_id.into(), answer);
    }

    /// What is answered for orders whose id starts so.
    pub fn set_start(&mut self, start: impl Into<String>, answer: Answer) {
        self.starts.insert(start.into(), answer);
    }

    /// One more entry for this order.
    pub fn add(&mut self, order_id: impl Into<String>, more: Answer) {
        let answer = self.orders.entry(order_id.into()).or_default();
        *answer = std::mem::take(answer).and(more);
    }

    /// One more entry for orders whose id starts so.
    pub fn add_start(&mut self, start: impl Into<String>, more: Answer) {
        let answer = self.starts.entry(start.into()).or_default();
        *answer = std::mem::take(answer).and(more);
    }

    /// Something is wrong with the next reply for which nothing else was said before.
    pub fn next(&mut self, fault: Fault) {
        self.faults.next.push_back(Some(fault));
    }

    /// Nothing is wrong with the next reply for which nothing else was said before.
    pub fn next_is_well(&mut self) {
        self.faults.next.push_back(None);
    }

    /// Something is wrong with every reply to a question that names this order.
    pub fn poison(&mut self, order_id: impl Into<String>, fault: Fault) {
        self.faults.poison.insert(order_id.into(), fault);
    }

    /// Something is wrong with each nth reply.
    pub fn every(&mut self, nth: u64, fault: Fault) {
        self.faults.every.push((nth.max(1), fault));
    }

    /// Something is wrong with all replies.
    pub fn always(&mut self, fault: Fault) {
        self.faults.always = Some(fault);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&mut self) {
        self.faults = Faults::default();
    }

    /// Whoever asks more often than so many times within a second is answered 429.
    pub fn limit(&mut self, per_second: u32) {
        self.limit = Some(per_second);
    }

    /// What is known of an order.
    pub fn answer(&self, order_id: &str) -> Answer {
        if let Some(answer) = self.orders.get(order_id) {
            return answer.clone();
        }
        if let Some(rule) = &self.rule {
            return rule(order_id);
        }
        self.starts
            .iter()
            .filter(|(start, _)| order_id.starts_with(start.as_str()))
            .max_by_key(|(start, _)| start.len())
            .map(|(_, answer)| answer.clone())
            .unwrap_or_default()
    }

    /// The reply to a question about these orders, and these besides.
    pub(super) fn reply(&self, order_ids: &[String], foreign: &[String]) -> String {
        let mut reply = String::from(r#"{"payments":["#);
        let mut separator = "";
        for id in order_ids.iter().chain(foreign) {
            for entry in self.answer(id).render(id) {
                reply.push_str(separator);
                reply.push_str(&entry);
                separator = ",";
            }
        }
        reply.push_str("]}");
        reply
    }

    pub(super) fn is_over(&self, in_a_second: usize) -> bool {
        self.limit.is_some_and(|limit| in_a_second > limit as usize)
    }

    /// What is wrong with the reply to the nth question.
    pub(super) fn fault(&mut self, nth: u64, order_ids: &[String]) -> Option<Fault> {
        let Faults {
            next,
            poison,
            every,
            always,
        } = &mut self.faults;
        if !poison.is_empty()
            && let Some(fault) = order_ids.iter().find_map(|id| poison.get(id))
        {
            return Some(fault.clone());
        }
        if let Some(fault) = next.pop_front() {
            return fault;
        }
        every
            .iter()
            .find(|(n, _)| nth.is_multiple_of(*n))
            .map(|(_, fault)| fault)
            .or(always.as_ref())
            .cloned()
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("orders", &self.orders.len())
            .field("starts", &self.starts)
            .field("rule", &self.rule.is_some())
            .field("faults", &self.faults)
            .field("limit", &self.limit)
            .finish()
    }
}
