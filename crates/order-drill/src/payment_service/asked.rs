//! How the mock was asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::ORDERS_MAX;
use crate::Difference;

/// What is kept of single questions and orders; counts go on beyond it.
const KEPT_MAX: usize = 200_000;
const WINDOW: Duration = Duration::from_secs(1);

/// How the mock was asked so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Requests of any kind.
    pub questions: u64,
    /// Orders in them, each as often as it was named.
    pub orders: u64,
    /// Orders in each question, oldest first; the first 200,000.
    pub sizes: Vec<usize>,
    /// How often each order was asked for; the first 200,000 orders.
    pub by_order: BTreeMap<String, u32>,
    /// Requests that the contract doesn't allow: unreadable, without orders, with more than 500, or with one named twice.
    pub wrong: u64,
    /// What was wrong with the first of them.
    pub first_wrong: Option<String>,
    /// The most requests within any second.
    pub most_in_a_second: usize,
    /// The most requests that waited for an answer at a time.
    pub most_at_once: usize,
    /// Requests answered 429 because of the script's limit.
    pub limited: u64,
    /// Requests that came before the time that a 429 had named: how long after that 429 each came.
    pub too_early: Vec<Duration>,
    /// Requests at the address that a redirect names.
    pub followed: u64,
}

impl Asked {
    /// How often this order was asked for.
    pub fn of(&self, order_id: &str) -> u32 {
        self.by_order.get(order_id).copied().unwrap_or(0)
    }

    /// The largest question.
    pub fn largest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// What was wrong with the questions, if anything was.
    pub fn difference(&self) -> Option<Difference> {
        let Self {
            wrong,
            first_wrong,
            too_early,
            ..
        } = self;
        let differ = |expected: &str, found: String| {
            Some(Difference::new(
                "questions to the payment service",
                expected,
                found,
            ))
        };
        match first_wrong {
            Some(first) => differ(
                "as in the contract",
                format!("{wrong} others, the first: {first}"),
            ),
            None if !too_early.is_empty() => {
                differ("none before a time named", format!("{}", too_early.len()))
            }
            None => None,
        }
    }

    pub(super) fn add_orders(&mut self, ids: &[String]) {
        self.orders += ids.len() as u64;
        if self.sizes.len() < KEPT_MAX {
            self.sizes.push(ids.len());
        }
        for id in ids {
            if let Some(count) = self.by_order.get_mut(id) {
                *count += 1;
            } else if self.by_order.len() < KEPT_MAX {
                self.by_order.insert(id.clone(), 1);
            }
        }
    }

    pub(super) fn add_wrong(&mut self, what: &str) {
        self.wrong += 1;
        self.first_wrong.get_or_insert_with(|| what.to_owned());
    }
}

/// When requests came, and when none should.
#[derive(Debug, Default)]
pub(super) struct Pace {
    recent: VecDeque<Instant>,
    closed: Option<Closed>,
}

#[derive(Debug, Clone, Copy)]
struct Closed {
    since: Instant,
    until: Instant,
}

impl Pace {
    /// Writes down one more request; says how many came within the second that ends with it.
    pub(super) fn arrive(&mut self, now: Instant, asked: &mut Asked) -> usize {
        while self
            .recent
            .front()
            .is_some_and(|first| now - *first >= WINDOW)
        {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        asked.questions += 1;
        asked.most_in_a_second = asked.most_in_a_second.max(self.recent.len());
        if let Some(Closed { since, until }) = self.closed
            && now < until
            && asked.too_early.len() < KEPT_MAX
        {
            asked.too_early.push(now - since);
        }
        self.recent.len()
    }

    /// Nobody should ask again before then.
    pub(super) fn close(&mut self, now: Instant, wait: Duration) {
        let until = now + wait;
        if self.closed.is_none_or(|closed| closed.until < until) {
            self.closed = Some(Closed { since: now, until });
        }
    }
}

/// The orders that a question names; else what is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Vec<String>, String> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Question {
        order_ids: Vec<String>,
    }
    let Question { order_ids } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if order_ids.is_empty() || order_ids.len() > ORDERS_MAX {
        return Err(format!("{} orders, not 1 to {ORDERS_MAX}", order_ids.len()));
    }
    let mut sorted: Vec<&String> = order_ids.iter().collect();
    sorted.sort_unstable();
    if let Some([twice, _]) = sorted.array_windows().find(|[one, next]| one == next) {
        return Err(format!("{twice} named twice"));
    }
    Ok(order_ids)
}
