//! How the mock was asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::ORDERS_MAX;

/// The most questions and orders kept one by one; the counts go on beyond it.
const KEPT_MAX: usize = 200_000;
const WINDOW: Duration = Duration::from_secs(1);

/// How the mock has been asked so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Questions of any kind.
    pub questions: u64,
    /// When each question came, oldest first; the first 200,000.
    pub times: Vec<Instant>,
    /// Orders in the questions; an order counts as often as it is named.
    pub orders: u64,
    /// The number of orders in each question, oldest first; the first 200,000.
    pub sizes: Vec<usize>,
    /// How often each order was named; the first 200,000 orders.
    pub by_order: BTreeMap<String, u32>,
    /// Questions that the contract doesn't allow: unreadable, without orders, with more than 500, or with one named twice.
    pub wrong: u64,
    /// What was wrong with the first of them.
    pub first_wrong: Option<String>,
    /// The most questions within any second.
    pub most_in_a_second: usize,
    /// The most questions that waited for an answer at the same time.
    pub most_at_once: usize,
    /// Questions answered 429 because they exceeded the script's limit.
    pub limited: u64,
    /// Questions that came before the time that a `Retry-After` had named: how long after that answer each came.
    pub too_early: Vec<Duration>,
    /// Requests to the address that a redirect names.
    pub followed: u64,
}

impl Asked {
    /// How often this order was named.
    pub fn of(&self, order_id: &str) -> u32 {
        self.by_order.get(order_id).copied().unwrap_or(0)
    }

    /// The number of orders in the largest question.
    pub fn largest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// How the questions violated the contract, if any did.
    pub fn violation(&self) -> Option<String> {
        match (&self.first_wrong, self.too_early.len()) {
            (Some(first), _) => Some(format!(
                "{} questions that the contract doesn't allow, the first: {first}",
                self.wrong
            )),
            (None, 0) => None,
            (None, count) => Some(format!(
                "{count} questions before the time that a Retry-After had named"
            )),
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

    pub(super) fn add_wrong(&mut self, what: String) {
        self.wrong += 1;
        self.first_wrong.get_or_insert(what);
    }
}

/// When questions came, and until when none should.
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
    /// Records one more question; returns how many came within the second that ends with it.
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
        if asked.times.len() < KEPT_MAX {
            asked.times.push(now);
        }
        if let Some(Closed { since, until }) = self.closed
            && now < until
            && asked.too_early.len() < KEPT_MAX
        {
            asked.too_early.push(now - since);
        }
        self.recent.len()
    }

    /// Until this time has passed, no question should come.
    pub(super) fn close(&mut self, now: Instant, wait: Duration) {
        let until = now + wait;
        if self.closed.is_none_or(|closed| closed.until < until) {
            self.closed = Some(Closed { since: now, until });
        }
    }
}

/// The orders that a question names, or what is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
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
