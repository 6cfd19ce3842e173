//! What is thrown, made from a seed: orders, facts about payments, messages about these facts, and when each is sent.
//!
//! Everything is a number until it is sent, so that a million messages fit into a few tens of megabytes. `story` says what is
//! played and what must come out, `draft` draws the random parts, `timing` shuffles, and `naming` and `fault` give the numbers
//! their names and bytes.

mod draft;
mod fault;
mod ledger;
mod naming;
mod scenario;
mod story;
#[cfg(test)]
mod tests;
mod timing;

pub(crate) use fault::Fault;
pub(crate) use ledger::{Case, ExpectedException, Fate, Ledger, Outcome, Recorded, Tally};
pub(crate) use naming::occurred_at;
pub(crate) use scenario::Scenario;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::PlanOptions;
use crate::words::{Currency, Kind};

/// A plan and the ledger of what must come out.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The source of everything random.
    pub seed: u64,
    /// The start of every id.
    pub prefix: String,
    pub(crate) providers: Vec<String>,
    /// Orders, including those that are never created.
    pub(crate) orders: Vec<Order>,
    /// Facts about payments, including those that are never published.
    pub(crate) facts: Vec<Fact>,
    /// Messages in no particular order.
    pub(crate) messages: Vec<Message>,
    /// Faults of the messages that can't be understood.
    pub(crate) letters: Vec<Fault>,
    /// What to do, wave after wave; within a wave, events are out of order.
    pub(crate) steps: Vec<Step>,
    pub(crate) ledger: Ledger,
    waves: Vec<Range<usize>>,
}

/// An order as its caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) amount: u64,
    pub(crate) currency: Currency,
}

/// A fact about a payment, published by any number of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fact {
    /// The order that it names.
    pub(crate) order: u32,
    /// Its transaction; conflicting facts and other kinds share it.
    pub(crate) transaction: u32,
    pub(crate) provider: u8,
    pub(crate) kind: Kind,
    pub(crate) amount: u64,
    pub(crate) currency: Currency,
    /// Whether it is real money.
    pub(crate) live: bool,
    /// How many messages publish it; 0 if it is lost.
    pub(crate) copies: u16,
}

/// What names a payment: provider, transaction and kind.
type Key = (u8, u32, Kind);

impl Fact {
    fn key(&self) -> Key {
        (self.provider, self.transaction, self.kind)
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Publishes a fact, under an event id that depends on the label.
    Payment { fact: u32, label: u16 },
    /// Can't be understood.
    Letter { letter: u32 },
}

/// One thing to do: create or cancel an order, or publish a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Create(u32),
    Cancel(u32),
    Publish(u32),
}

/// What a plan holds, in numbers.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "each field is what it counts")]
pub struct Summary {
    pub seed: u64,
    pub prefix: String,
    pub orders: u64,
    pub messages: u64,
    pub duplicates: u64,
    pub lost: u64,
    pub dead_letters: u64,
    pub waves: u64,
    pub cases: BTreeMap<&'static str, u64>,
}

/// A small whole number; the options limit counts and shares far below.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the options limit what this is called with"
)]
fn whole(value: f64) -> u32 {
    value as u32
}

impl Plan {
    /// Makes a plan; the same options give the same plan, byte for byte.
    pub fn generate(options: &PlanOptions) -> Self {
        story::play_all(options)
    }

    /// What the plan holds, in numbers.
    pub fn summary(&self) -> Summary {
        Summary {
            seed: self.seed,
            prefix: self.prefix.clone(),
            orders: self.created(),
            messages: self.messages.len() as u64,
            duplicates: self.duplicates(),
            lost: self.lost().count() as u64,
            dead_letters: self.letters.len() as u64,
            waves: self.waves.len() as u64,
            cases: self.cases(),
        }
    }

    /// The number of cases of each scenario.
    pub(crate) fn cases(&self) -> BTreeMap<&'static str, u64> {
        let mut cases = BTreeMap::new();
        for case in &self.ledger.cases {
            *cases.entry(case.scenario.as_str()).or_default() += 1;
        }
        cases
    }

    /// The steps of each wave. A wave starts when everything of the wave before is acknowledged.
    pub(crate) fn waves(&self) -> impl Iterator<Item = &[Step]> {
        self.waves.iter().map(|wave| &self.steps[wave.clone()])
    }

    pub(crate) fn order(&self, number: u32) -> &Order {
        &self.orders[number as usize]
    }

    pub(crate) fn fact(&self, number: u32) -> &Fact {
        &self.facts[number as usize]
    }

    pub(crate) fn message(&self, number: u32) -> Message {
        self.messages[number as usize]
    }

    /// The facts that are never published and that a payment service still knows.
    pub(crate) fn lost(&self) -> impl Iterator<Item = u32> {
        let facts = (0u32..).zip(&self.facts);
        facts
            .filter(|(_, fact)| fact.copies == 0)
            .map(|(number, _)| number)
    }

    /// The facts that are never published and must be recorded all the same.
    pub(crate) fn to_heal(&self) -> impl Iterator<Item = u32> {
        self.ledger.cases.iter().flat_map(|case| {
            let is_recorded =
                |fact: &u32| case.outcomes[0].recorded.iter().any(|r| r.fact == *fact);
            let is_lost = |fact: &u32| self.fact(*fact).copies == 0;
            case.facts.clone().filter(is_lost).filter(is_recorded)
        })
    }

    /// The messages that publish a fact once more.
    pub(crate) fn duplicates(&self) -> u64 {
        let repeated = |fact: &Fact| u64::from(fact.copies.saturating_sub(1));
        self.facts.iter().map(repeated).sum()
    }

    /// The orders that are created.
    pub(crate) fn created(&self) -> u64 {
        let is_creation = |step: &&Step| matches!(step, Step::Create(_));
        self.steps.iter().filter(is_creation).count() as u64
    }
}
