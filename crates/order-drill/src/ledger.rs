//! What must come out of a plan.
//!
//! The unit is a *case*: some orders, all payments that touch them, and every outcome that the contract allows. Where the
//! contract lets the first one win, there is an outcome for each winner; the service must match exactly one as a whole, so
//! "exactly one of these is applied" needs no rule of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Kind, Plan, Scenario, Status, Verdict};

/// The cases of a plan.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// In the order of their orders.
    pub cases: Vec<Case>,
}

/// Orders and payments that can influence one another, and nothing else does.
#[derive(Debug, Clone)]
pub struct Case {
    /// What is being played.
    pub scenario: Scenario,
    /// Its orders, by number.
    pub orders: Range<u32>,
    /// Its facts, by number.
    pub facts: Range<u32>,
    /// What is allowed; at least one.
    pub outcomes: Vec<Outcome>,
}

/// One allowed end of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// One for each order of the case.
    pub fates: Vec<Fate>,
    /// The payments that are recorded, and no others.
    pub recorded: Vec<Recorded>,
}

/// A fact that is recorded as a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub fact: u32,
    /// The verdict stored with it.
    pub verdict: Verdict,
}

/// How an order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It doesn't exist.
    NeverCreated,
    /// Created and nothing else.
    NotPaid,
    /// Paid by this fact.
    Paid {
        /// Its number.
        by: u32,
    },
    /// Cancelled without having been paid.
    Cancelled,
}

impl Fate {
    /// Status and version of an order that exists.
    pub fn state(self) -> Option<(Status, u64)> {
        match self {
            Self::NeverCreated => None,
            Self::NotPaid => Some((Status::NotPaid, 1)),
            Self::Paid { .. } => Some((Status::Paid, 2)),
            Self::Cancelled => Some((Status::Cancelled, 2)),
        }
    }
}

/// What an outcome demands of the counters; `Duplicate` and what isn't stored are counted per delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Verdict, u64>);

impl Tally {
    /// The count of a verdict.
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.0.get(&verdict).copied().unwrap_or(0)
    }

    /// Adds to the count of a verdict.
    pub fn add(&mut self, verdict: Verdict, count: u64) {
        if count > 0 {
            *self.0.entry(verdict).or_default() += count;
        }
    }

    /// The payment service was faster than the event: its first message was counted as a duplicate, or there was none.
    pub(crate) fn heal(&mut self, verdict: Verdict, copies: u16) {
        if let Some(count) = self.0.get_mut(&verdict) {
            *count = count.saturating_sub(1);
        }
        self.add(Verdict::Duplicate, u64::from(copies.min(1)));
    }

    /// Adds what this outcome of the case demands.
    pub fn add_outcome(&mut self, plan: &Plan, case: &Case, outcome: &Outcome) {
        for fact in case.facts.clone() {
            let copies = u64::from(plan.fact(fact).copies);
            match verdict_in(plan, outcome, fact) {
                Some(stored) if stored.is_stored() => {
                    self.add(stored, 1);
                    self.add(Verdict::Duplicate, copies.saturating_sub(1));
                }
                Some(repeated) => self.add(repeated, copies),
                None => {}
            }
        }
    }
}

/// An exception that an outcome demands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpectedException {
    /// Why it is open.
    pub verdict: Verdict,
    /// The order that the fact names.
    pub order: u32,
    /// The fact behind it.
    pub fact: u32,
    /// For conflicting content: the fact that is recorded under the same key.
    pub recorded: Option<u32>,
}

impl Outcome {
    /// An outcome for a case with one order.
    pub(crate) fn of_one(fate: Fate, recorded: Vec<Recorded>) -> Self {
        Self {
            fates: vec![fate],
            recorded,
        }
    }

    /// The exceptions that must be open.
    pub fn exceptions(&self, plan: &Plan, case: &Case) -> Vec<ExpectedException> {
        let demanded = |fact: u32| {
            let verdict = verdict_in(plan, self, fact)?;
            let needs_person = verdict.is_stored() || plan.fact(fact).kind.moves_money();
            let demanded = verdict.demands_exception() && needs_person;
            demanded.then(|| ExpectedException {
                verdict,
                order: plan.fact(fact).order,
                fact,
                recorded: (verdict == Verdict::ConflictingContent)
                    .then(|| self.rival(plan, fact))
                    .flatten(),
            })
        };
        case.facts.clone().filter_map(demanded).collect()
    }

    fn rival(&self, plan: &Plan, fact: u32) -> Option<u32> {
        let key = plan.fact(fact).key();
        self.recorded
            .iter()
            .map(|r| r.fact)
            .find(|&other| plan.fact(other).key() == key)
    }
}

/// What becomes of a fact in an outcome; nothing if it was never published and nobody healed it.
fn verdict_in(plan: &Plan, outcome: &Outcome, number: u32) -> Option<Verdict> {
    if let Some(recorded) = outcome.recorded.iter().find(|r| r.fact == number) {
        return Some(recorded.verdict);
    }
    let fact = plan.fact(number);
    if fact.copies == 0 {
        None
    } else if fact.live {
        Some(Verdict::ConflictingContent)
    } else {
        Some(Verdict::NotLive)
    }
}

/// What names a payment: provider, transaction and kind.
pub(crate) type Key = (u8, u32, Kind);
