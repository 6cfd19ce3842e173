//! A page of the outbox while it is published: the events of an order one after the other. An event
//! that can't be published stops only the later ones of its order.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use order_store::{AsideKind, Fate, OutboxEvent};

use super::event::{EVENTS, Outgoing, UNKNOWN};
use super::subjects::Subjects;
use crate::telemetry::chain;

/// The events of one order, or one exception, by their numbers in the batch.
#[derive(Debug, Default)]
struct Chain {
    rest: VecDeque<usize>,
    stop: Option<Stop>,
}

/// Why the first of the remaining events isn't published.
#[derive(Debug, Clone)]
enum Stop {
    /// An earlier version of its order is set aside.
    Waits,
    /// It can't be read.
    Unreadable,
    /// It is too large for the broker, which said this.
    TooLarge(String),
    /// It was sent, and not acknowledged.
    Unacknowledged,
}

/// The events of a page.
#[derive(Debug)]
pub(super) struct Batch {
    outgoing: Vec<Option<Outgoing>>,
    unreadable: Vec<Option<String>>,
    chains: Vec<Chain>,
    /// Chains whose first event can be sent, by the token of its subject.
    ready: BTreeMap<&'static str, VecDeque<usize>>,
    /// The token whose turn it is.
    turn: usize,
    published: Vec<bool>,
}

/// The next event to be sent.
#[derive(Debug)]
pub(super) struct Next {
    /// Which chain it is the first of.
    pub(super) chain: usize,
    pub(super) outgoing: Outgoing,
}

impl Batch {
    /// The events of a page; those of orders that are set aside wait.
    pub(super) fn new(events: &[OutboxEvent], set_aside: &HashSet<String>) -> Self {
        let mut chains: Vec<Chain> = Vec::new();
        let mut of_order: HashMap<&str, usize> = HashMap::new();
        for (number, event) in events.iter().enumerate() {
            let new = chains.len();
            let chain = match &event.order {
                Some((order, _)) => *of_order.entry(order).or_insert(new),
                None => new,
            };
            if chain == new {
                let waits = event
                    .order
                    .as_ref()
                    .is_some_and(|(order, _)| set_aside.contains(order));
                chains.push(Chain {
                    rest: VecDeque::new(),
                    stop: waits.then_some(Stop::Waits),
                });
            }
            chains[chain].rest.push_back(number);
        }
        let mut batch = Self {
            outgoing: events
                .iter()
                .map(|event| event.body.as_ref().ok().map(Outgoing::of))
                .collect(),
            unreadable: events
                .iter()
                .map(|event| event.body.as_ref().err().map(|error| chain(error)))
                .collect(),
            ready: BTreeMap::new(),
            turn: 0,
            published: vec![false; events.len()],
            chains,
        };
        for chain in 0..batch.chains.len() {
            batch.get_ready(chain);
        }
        batch
    }

    /// The next event whose subject `may_send` allows; the subjects take turns.
    pub(super) fn next(&mut self, may_send: impl Fn(&'static str) -> bool) -> Option<Next> {
        for _ in 0..EVENTS.len() {
            let (_, token) = EVENTS[self.turn];
            self.turn = (self.turn + 1) % EVENTS.len();
            if !may_send(token) {
                continue;
            }
            let ready = self.ready.get_mut(token);
            if let Some(chain) = ready.and_then(VecDeque::pop_front) {
                let number = self.chains[chain].rest[0];
                let outgoing = self.outgoing[number].clone()?;
                return Some(Next { chain, outgoing });
            }
        }
        None
    }

    /// The first event of a chain is acknowledged: the next one may be sent.
    pub(super) fn acknowledged(&mut self, chain: usize) -> usize {
        let number = self.chains[chain].rest.pop_front();
        let number = number.expect("what was sent is the first of its chain");
        self.published[number] = true;
        self.get_ready(chain);
        number
    }

    /// The first event of a chain was sent and not acknowledged.
    pub(super) fn unacknowledged(&mut self, chain: usize) {
        self.chains[chain].stop = Some(Stop::Unacknowledged);
    }

    /// The first event of a chain is too large.
    pub(super) fn too_large(&mut self, chain: usize, why: String) {
        self.chains[chain].stop = Some(Stop::TooLarge(why));
    }

    fn get_ready(&mut self, chain: usize) {
        let Some(&number) = self.chains[chain].rest.front() else {
            return;
        };
        if self.chains[chain].stop.is_some() {
            return;
        }
        match &self.outgoing[number] {
            Some(outgoing) => self
                .ready
                .entry(outgoing.token)
                .or_default()
                .push_back(chain),
            None => self.chains[chain].stop = Some(Stop::Unreadable),
        }
    }

    /// The events that were published.
    pub(super) fn published(&self) -> impl Iterator<Item = &Outgoing> {
        let published = self.outgoing.iter().zip(&self.published);
        published
            .filter(|(_, published)| **published)
            .filter_map(|(outgoing, _)| outgoing.as_ref())
    }

    /// What became of each event, now that it is known which subjects are closed.
    pub(super) fn fates(&self, subjects: &Subjects) -> Vec<Fate> {
        let mut fates = vec![Fate::Kept; self.published.len()];
        for (fate, published) in fates.iter_mut().zip(&self.published) {
            if *published {
                *fate = Fate::Published;
            }
        }
        for chain in &self.chains {
            let Some(&first) = chain.rest.front() else {
                continue;
            };
            let Some(first_fate) = self.stopped(first, chain.stop.as_ref(), subjects) else {
                continue;
            };
            fates[first] = first_fate;
            for &number in chain.rest.iter().skip(1) {
                fates[number] = self.aside(number, AsideKind::Waits, WAITS.to_owned(), false);
            }
        }
        fates
    }

    /// How an event is set aside, or `None` if it stays in the outbox.
    fn stopped(&self, number: usize, stop: Option<&Stop>, subjects: &Subjects) -> Option<Fate> {
        let (kind, why, tried) = match stop {
            Some(Stop::Waits) => (AsideKind::Waits, WAITS.to_owned(), false),
            Some(Stop::Unreadable) => {
                let why = self.unreadable[number].clone().unwrap_or_default();
                (AsideKind::Unreadable, why, false)
            }
            Some(Stop::TooLarge(why)) => (AsideKind::TooLarge, why.clone(), false),
            Some(Stop::Unacknowledged) | None => {
                let token = self.outgoing[number].as_ref()?.token;
                let why = subjects.why(token)?;
                (AsideKind::Blocked, why.to_owned(), stop.is_some())
            }
        };
        Some(self.aside(number, kind, why, tried))
    }

    fn aside(&self, number: usize, kind: AsideKind, why: String, tried: bool) -> Fate {
        let outgoing = self.outgoing[number].as_ref();
        Fate::SetAside {
            kind,
            event: outgoing.map_or(UNKNOWN, |outgoing| outgoing.token),
            why,
            tried,
        }
    }
}

const WAITS: &str = "waits for an earlier version of its order";
