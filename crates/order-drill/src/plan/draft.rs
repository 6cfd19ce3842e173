//! A plan in the making: draws orders, facts and messages of one case after the other, and puts each into the schedule.

use std::ops::Range;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::naming::SHARED_LABEL;
use super::timing::{self, Manner, Slot, Timing};
use super::{Case, Ledger, Outcome, Recorded};
use super::{Fact, Fault, Message, Order, Plan, Scenario, Step, whole};
use crate::PlanOptions;
use crate::words::{Currency, Kind, Verdict};

/// One message in a hundred has an event id that others have too, since it is only a label.
const SHARED_EVENT_ID: f64 = 0.01;
/// One failed attempt in three has the transaction of the later success.
const SAME_TRANSACTION: f64 = 0.3;
/// Leaves room for one less and one more.
const AMOUNTS: Range<u64> = 2..1_000_000_000;

/// A plan in the making, with the timing of the current case.
pub(super) struct Draft<'a> {
    options: &'a PlanOptions,
    rng: Xoshiro256PlusPlus,
    waves: u32,
    timing: Timing,
    lost: Vec<u32>,
    orders: Vec<Order>,
    facts: Vec<Fact>,
    messages: Vec<Message>,
    letters: Vec<Fault>,
    cases: Vec<Case>,
    schedule: Vec<(Slot, Step)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(options: &'a PlanOptions, mut rng: Xoshiro256PlusPlus, waves: u32) -> Self {
        let timing = Timing::draw(&mut rng, 0, waves, Manner::Usual);
        Self {
            options,
            rng,
            waves,
            timing,
            lost: Vec::new(),
            orders: Vec::new(),
            facts: Vec::new(),
            messages: Vec::new(),
            letters: Vec::new(),
            cases: Vec::new(),
            schedule: Vec::new(),
        }
    }

    /// Adds a case that begins in the wave `home`; `play` draws it and says what must come out.
    pub(super) fn case(
        &mut self,
        scenario: Scenario,
        home: u32,
        play: impl FnOnce(&mut Self) -> Vec<Outcome>,
    ) {
        let manner = match scenario {
            Scenario::CancelRace | Scenario::LostAfterCancel => Manner::Together,
            _ if self.chance(self.options.early) => Manner::Early,
            _ => Manner::Usual,
        };
        self.timing = Timing::draw(&mut self.rng, home, self.waves, manner);
        let (first_order, first_fact) = (number(self.orders.len()), number(self.facts.len()));
        let outcomes = play(self);
        let facts = first_fact..number(self.facts.len());
        self.publish_facts(facts.clone());
        self.lost.clear();
        let orders = first_order..number(self.orders.len());
        self.cases.push(Case {
            scenario,
            orders,
            facts,
            outcomes,
        });
    }

    /// An order that is created.
    pub(super) fn order(&mut self) -> u32 {
        let order = self.order_never_created();
        self.schedule
            .push((self.timing.created(), Step::Create(order)));
        order
    }

    /// An order that only payments name.
    pub(super) fn order_never_created(&mut self) -> u32 {
        let amount = self.rng.random_range(AMOUNTS);
        let currency = self.pick(&Currency::ALL);
        self.orders.push(Order { amount, currency });
        number(self.orders.len()) - 1
    }

    /// An order with the money of another one.
    pub(super) fn order_like(&mut self, other: u32) -> u32 {
        let order = self.order();
        self.orders[order as usize] = self.orders[other as usize];
        order
    }

    pub(super) fn cancel(&mut self, order: u32) {
        let slot = self.timing.cancelled(&mut self.rng);
        self.schedule.push((slot, Step::Cancel(order)));
    }

    /// A fact with a transaction of its own and the order's money.
    pub(super) fn fact(&mut self, order: u32, kind: Kind) -> u32 {
        let fact = number(self.facts.len());
        let provider = self.rng.random_range(0..self.options.providers.len());
        let Order { amount, currency } = self.orders[order as usize];
        self.facts.push(Fact {
            order,
            transaction: fact,
            provider: u8::try_from(provider).unwrap_or(0),
            kind,
            amount,
            currency,
            live: true,
            copies: 1,
        });
        fact
    }

    /// A fact of the same provider and transaction as another one.
    pub(super) fn fact_like(&mut self, other: u32, order: u32, kind: Kind) -> u32 {
        let fact = self.fact(order, kind);
        let Fact {
            provider,
            transaction,
            ..
        } = self.facts[other as usize];
        let shared = self.edit(fact);
        (shared.provider, shared.transaction) = (provider, transaction);
        fact
    }

    /// This fact is never published.
    pub(super) fn lose(&mut self, fact: u32) {
        self.lost.push(fact);
    }

    pub(super) fn edit(&mut self, fact: u32) -> &mut Fact {
        &mut self.facts[fact as usize]
    }

    /// Failed and expired attempts to pay the order; the first may have the success's transaction.
    pub(super) fn attempts(&mut self, order: u32, success: Option<u32>) -> Vec<Recorded> {
        let mean = self.options.attempts;
        let count = whole(mean.floor()) + u32::from(self.chance(mean.fract()));
        let mut recorded = Vec::with_capacity(count as usize);
        for nth in 0..count {
            let kind = if self.chance(0.25) {
                Kind::Expired
            } else {
                Kind::Failed
            };
            let fact = match success {
                Some(success) if nth == 0 && self.chance(SAME_TRANSACTION) => {
                    self.fact_like(success, order, kind)
                }
                _ => self.fact(order, kind),
            };
            recorded.push(Recorded {
                fact,
                verdict: Verdict::AttemptFailed,
            });
        }
        recorded
    }

    /// Another provider than this one, if there is one.
    pub(super) fn other_provider(&self, provider: u8) -> Option<u8> {
        let count = self.options.providers.len();
        let next = (usize::from(provider) + 1) % count;
        (count > 1).then(|| u8::try_from(next).unwrap_or(0))
    }

    pub(super) fn expects_healing(&self) -> bool {
        self.options.expect_healed
    }

    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }

    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.random_range(0..all.len())]
    }

    fn publish_facts(&mut self, facts: Range<u32>) {
        let mut nth = 0;
        for fact in facts {
            let copies = if self.lost.contains(&fact) {
                0
            } else {
                self.copies()
            };
            self.facts[fact as usize].copies = copies;
            for copy in 0..copies {
                let label = self.label(copy);
                let slot = self.timing.message(&mut self.rng, nth);
                self.publish(slot, Message::Payment { fact, label });
                nth += 1;
            }
        }
    }

    fn copies(&mut self) -> u16 {
        if !self.chance(self.options.duplicates) {
            return 1;
        }
        match self.rng.random_range(0..20) {
            0 => 10,
            1 | 2 => 3,
            _ => 2,
        }
    }

    fn label(&mut self, copy: u16) -> u16 {
        if self.chance(SHARED_EVENT_ID) {
            SHARED_LABEL
        } else if self.chance(0.5) {
            copy
        } else {
            0
        }
    }

    pub(super) fn letter(&mut self, fault: Fault) {
        let letter = number(self.letters.len());
        self.letters.push(fault);
        let slot = timing::anywhere(&mut self.rng, 0, self.waves);
        self.publish(slot, Message::Letter { letter });
    }

    fn publish(&mut self, slot: Slot, message: Message) {
        self.schedule
            .push((slot, Step::Publish(number(self.messages.len()))));
        self.messages.push(message);
    }

    pub(super) fn finish(mut self) -> Plan {
        // Stable, so that the steps of one slot stay in the order in which they were drawn.
        self.schedule.sort_by_key(|(slot, _)| *slot);
        let mut waves = Vec::new();
        let mut start = 0;
        for wave in self.schedule.chunk_by(|(a, _), (b, _)| a.wave == b.wave) {
            waves.push(start..start + wave.len());
            start += wave.len();
        }
        Plan {
            seed: self.options.seed,
            prefix: self.options.prefix.clone(),
            providers: self.options.providers.clone(),
            orders: self.orders,
            facts: self.facts,
            messages: self.messages,
            letters: self.letters,
            steps: self.schedule.into_iter().map(|(_, step)| step).collect(),
            ledger: Ledger { cases: self.cases },
            waves,
        }
    }
}

/// A length as a number; the options limit every list far below.
pub(super) fn number(length: usize) -> u32 {
    u32::try_from(length).expect("the options limit a plan to less than 2^32 of anything")
}
