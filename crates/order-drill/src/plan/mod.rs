//! What is thrown, made from a seed: orders, facts about payments, messages about these facts, and when each is sent.
//!
//! Everything is a number until it is sent, so that a million messages fit into a few tens of megabytes; `naming` gives
//! the numbers their names and bytes, `story` says what is played and what must come out, `draft` draws the lots and
//! `timing` shuffles.

mod draft;
mod fault;
mod naming;
mod scenario;
mod story;
#[cfg(test)]
mod tests;
mod timing;

pub use fault::Fault;
pub use scenario::Scenario;

use std::ops::Range;

use crate::ledger::Key;
use crate::{Currency, Error, Kind, Ledger, PlanOptions};

/// A plan and the ledger of what must come out.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed it came from.
    pub seed: u64,
    /// Starts every id.
    pub prefix: String,
    /// Payment providers, by number.
    pub providers: Vec<String>,
    /// Orders, also those that are never created.
    pub orders: Vec<Order>,
    /// Facts about payments, also those that are never told.
    pub facts: Vec<Fact>,
    /// Messages in no particular order.
    pub messages: Vec<Message>,
    /// Faults of the messages that can't be understood.
    pub letters: Vec<Fault>,
    /// What to do, wave after wave; inside a wave the order is that of a busy afternoon.
    pub steps: Vec<Step>,
    /// What must come out.
    pub ledger: Ledger,
    waves: Vec<Range<usize>>,
}

/// An order as its caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Minor units.
    pub amount: u64,
    /// Of the amount.
    pub currency: Currency,
}

/// A fact about a payment, told by any number of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// The order it names.
    pub order: u32,
    /// Its transaction; conflicting facts and other kinds share it.
    pub transaction: u32,
    /// Its provider, by number.
    pub provider: u8,
    /// What happened.
    pub kind: Kind,
    /// Minor units.
    pub amount: u64,
    /// Of the amount.
    pub currency: Currency,
    /// Whether it is real money.
    pub live: bool,
    /// How many messages tell it; none if it is lost.
    pub copies: u16,
}

impl Fact {
    pub(crate) fn key(&self) -> Key {
        (self.provider, self.transaction, self.kind)
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Tells a fact, under an event id that depends on the label.
    Payment {
        /// Which fact.
        fact: u32,
        /// Which of its event ids.
        label: u16,
    },
    /// Can't be understood.
    Letter {
        /// Which one.
        letter: u32,
    },
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Create this order.
    Create(u32),
    /// Cancel this order.
    Cancel(u32),
    /// Publish this message.
    Publish(u32),
}

impl Plan {
    /// Makes a plan; the same options give the same plan, byte for byte.
    ///
    /// # Errors
    /// An option that can't be drilled.
    pub fn generate(options: &PlanOptions) -> Result<Self, Error> {
        options.validate()?;
        Ok(draft::draft(options))
    }

    /// The steps of each wave. A wave starts when everything of the one before is acknowledged.
    pub fn waves(&self) -> impl Iterator<Item = &[Step]> {
        self.waves.iter().map(|wave| &self.steps[wave.clone()])
    }

    /// An order by number.
    pub fn order(&self, number: u32) -> &Order {
        &self.orders[number as usize]
    }

    /// A fact by number.
    pub fn fact(&self, number: u32) -> &Fact {
        &self.facts[number as usize]
    }

    /// A message by number.
    pub fn message(&self, number: u32) -> &Message {
        &self.messages[number as usize]
    }

    /// What was never published, and a payment service still knows.
    pub fn lost(&self) -> impl Iterator<Item = u32> {
        (0u32..)
            .zip(&self.facts)
            .filter(|(_, fact)| fact.copies == 0)
            .map(|(number, _)| number)
    }

    /// What was never published and must be recorded all the same.
    pub fn to_heal(&self) -> impl Iterator<Item = u32> {
        self.ledger.cases.iter().flat_map(|case| {
            let is_recorded =
                |fact: &u32| case.outcomes[0].recorded.iter().any(|r| r.fact == *fact);
            let is_lost = |fact: &u32| self.fact(*fact).copies == 0;
            case.facts.clone().filter(is_lost).filter(is_recorded)
        })
    }

    /// Messages that tell a fact once more.
    pub fn duplicates(&self) -> u64 {
        self.facts
            .iter()
            .map(|fact| u64::from(fact.copies.saturating_sub(1)))
            .sum()
    }

    /// Orders that are created.
    pub fn created(&self) -> u64 {
        self.steps
            .iter()
            .filter(|step| matches!(step, Step::Create(_)))
            .count() as u64
    }
}
