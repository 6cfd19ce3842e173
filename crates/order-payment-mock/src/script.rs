//! What the mock answers, by order, by the start of the order's id, or by a rule; and which faults occur.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::{Answer, Fault};

type Rule = Arc<dyn Fn(&str) -> Answer + Send + Sync>;

/// What the mock answers. For an order, the first of these decides: the answer set for its id, the rule, the answer set
/// for the longest matching start of its id. Otherwise the reply leaves the order out.
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
    above: Option<(usize, Fault)>,
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

    /// Answers that are computed when they are needed, so that no order takes memory.
    pub fn by(rule: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self {
            rule: Some(Arc::new(rule)),
            ..Self::default()
        }
    }

    /// Sets the answer for this order.
    pub fn set(&mut self, order_id: impl Into<String>, answer: Answer) {
        self.orders.insert(order_id.into(), answer);
    }

    /// Sets the answer for orders whose id starts with this text.
    pub fn set_start(&mut self, start: impl Into<String>, answer: Answer) {
        self.starts.insert(start.into(), answer);
    }

    /// Adds entries to the answer for this order.
    pub fn add(&mut self, order_id: impl Into<String>, more: Answer) {
        let answer = self.orders.entry(order_id.into()).or_default();
        *answer = std::mem::take(answer).and(more);
    }

    /// Adds entries to the answer for orders whose id starts with this text.
    pub fn add_start(&mut self, start: impl Into<String>, more: Answer) {
        let answer = self.starts.entry(start.into()).or_default();
        *answer = std::mem::take(answer).and(more);
    }

    /// Appends a fault to the queue; each reply takes one from it.
    pub fn next(&mut self, fault: Fault) {
        self.faults.next.push_back(Some(fault));
    }

    /// Appends a reply without a fault to the queue.
    pub fn next_is_well(&mut self) {
        self.faults.next.push_back(None);
    }

    /// Every reply to a question that names this order has the fault.
    pub fn poison(&mut self, order_id: impl Into<String>, fault: Fault) {
        self.faults.poison.insert(order_id.into(), fault);
    }

    /// Every reply to a question with more orders than this has the fault.
    pub fn above(&mut self, orders: usize, fault: Fault) {
        self.faults.above = Some((orders, fault));
    }

    /// Each nth reply has the fault.
    pub fn every(&mut self, nth: u64, fault: Fault) {
        self.faults.every.push((nth.max(1), fault));
    }

    /// Every reply has the fault.
    pub fn always(&mut self, fault: Fault) {
        self.faults.always = Some(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&mut self) {
        self.faults = Faults::default();
    }

    /// Questions beyond this number within a second are answered 429.
    pub fn limit(&mut self, per_second: u32) {
        self.limit = Some(per_second);
    }

    /// The answer for an order.
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

    /// The reply to a question about these orders, with the entries about the foreign orders added.
    pub(super) fn reply(&self, order_ids: &[String], foreign: &[String]) -> String {
        let ids = order_ids.iter().chain(foreign);
        let entries: Vec<String> = ids
            .flat_map(|id| self.answer(id).render(id).collect::<Vec<_>>())
            .collect();
        format!(r#"{{"payments":[{}]}}"#, entries.join(","))
    }

    pub(super) fn is_over(&self, in_a_second: usize) -> bool {
        self.limit.is_some_and(|limit| in_a_second > limit as usize)
    }

    /// The fault of the reply to the nth question.
    pub(super) fn fault(&mut self, nth: u64, order_ids: &[String]) -> Option<Fault> {
        let Faults {
            next,
            poison,
            above,
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
        let above = above.as_ref().filter(|(most, _)| order_ids.len() > *most);
        let every = every.iter().find(|(n, _)| nth.is_multiple_of(*n));
        above
            .map(|(_, fault)| fault)
            .or(every.map(|(_, fault)| fault))
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
