//! What must come out of a plan.
//!
//! The unit is a *case*: some orders, all payments that touch them, and every outcome that the contract allows. Where the
//! first payment wins, there is an outcome for each possible winner. The service must match one outcome as a whole, so
//! "exactly one of these is applied" needs no rule of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Plan, Scenario};
use crate::words::Verdict;

/// The cases of a plan, in the order of their orders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    pub(crate) cases: Vec<Case>,
}

/// Orders and payments that can influence one another, and that no others influence.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) scenario: Scenario,
    pub(crate) orders: Range<u32>,
    pub(crate) facts: Range<u32>,
    /// What is allowed; at least one outcome.
    pub(crate) outcomes: Vec<Outcome>,
}

/// One allowed end of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// One for each order of the case.
    pub(crate) fates: Vec<Fate>,
    /// The payments that are recorded, and no others.
    pub(crate) recorded: Vec<Recorded>,
}

/// A fact that is recorded as a payment with this verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) fact: u32,
    pub(crate) verdict: Verdict,
}

/// How an order ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    NeverCreated,
    NotPaid,
    /// Paid by this fact.
    Paid {
        by: u32,
    },
    Cancelled,
}

impl Fate {
    /// Status and version of an order that exists; a drill ships nothing.
    pub(crate) fn state(self) -> Option<(&'static str, u64)> {
        match self {
            Self::NeverCreated => None,
            Self::NotPaid => Some(("NOT_PAID", 1)),
            Self::Paid { .. } => Some(("PAID", 2)),
            Self::Cancelled => Some(("CANCELLED", 2)),
        }
    }
}

/// What an outcome demands of the counters; `Duplicate` and what isn't stored are counted per delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<Verdict, u64>);

impl Tally {
    pub(crate) fn of(&self, verdict: Verdict) -> u64 {
        self.0.get(&verdict).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, verdict: Verdict, count: u64) {
        if count > 0 {
            *self.0.entry(verdict).or_default() += count;
        }
    }

    /// Corrects the counts for a payment that a reconciliation recorded: its first message, if there was one, was counted as
    /// a duplicate.
    pub(crate) fn heal(&mut self, verdict: Verdict, copies: u16) {
        if let Some(count) = self.0.get_mut(&verdict) {
            *count = count.saturating_sub(1);
        }
        self.add(Verdict::Duplicate, u64::from(copies.min(1)));
    }

    /// Adds what this outcome of the case demands.
    pub(crate) fn add_outcome(&mut self, plan: &Plan, case: &Case, outcome: &Outcome) {
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
pub(crate) struct ExpectedException {
    pub(crate) verdict: Verdict,
    /// The order that the fact names.
    pub(crate) order: u32,
    pub(crate) fact: u32,
    /// For conflicting content: the fact that is recorded under the same key.
    pub(crate) recorded: Option<u32>,
}

impl Outcome {
    /// An outcome for a case with one order.
    pub(super) fn of_one(fate: Fate, recorded: Vec<Recorded>) -> Self {
        Self {
            fates: vec![fate],
            recorded,
        }
    }

    /// The exceptions that must be open.
    pub(crate) fn exceptions(&self, plan: &Plan, case: &Case) -> Vec<ExpectedException> {
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

/// The verdict of a fact in an outcome; `None` if it was neither published nor healed.
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
