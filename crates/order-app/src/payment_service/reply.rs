//! Reads what the payment service answered. Pure, total, never panics: entries are read one by one,
//! and whatever isn't a definite answer is *unknown*.

use std::collections::HashMap;

use order_fsm::{OrderId, PaymentKey, PaymentKind};
use order_store::{PaymentFact, RecordedAnswer, Source};
use serde_json::value::RawValue;

use crate::payment_event::{Fields, NotUnderstood, Reason, content, occurred_at, parsed};
use crate::raw_object::RawObject;

const NAMES: [&str; 8] = [
    "order_id",
    "state",
    "final",
    "provider",
    "transaction_id",
    "amount",
    "currency",
    "occurred_at",
];

/// What the entries about one order say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What follows from it.
    pub state: State,
    /// What follows from the entries other than `paid`, if any; it counts when a person has given
    /// up every reported payment.
    pub rest: Option<State>,
    /// The payments it reports.
    pub facts: Vec<PaymentFact>,
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It was paid.
    Paid,
    /// It was paid, and the money went back.
    Refunded,
    /// It was not paid, and can't be paid any more.
    UnpaidForGood,
    /// It was not paid yet.
    Unpaid,
    /// A payment is on its way.
    Pending,
    /// Nothing is known, for this reason.
    Unknown(String),
}

impl Answer {
    /// An unknown state, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            state: State::Unknown(why.into()),
            rest: None,
            facts: Vec::new(),
        }
    }

    /// What follows from this answer once its facts are recorded: payments that a person gave up no
    /// longer count. `None` if the answer says nothing else.
    pub fn state_after(&self, recorded: &[RecordedAnswer]) -> Option<&State> {
        let mut payments = self
            .facts
            .iter()
            .zip(recorded)
            .filter(|(fact, _)| fact.key.kind == PaymentKind::Succeeded);
        let given_up = self.state == State::Paid
            && payments.all(|(_, recorded)| matches!(recorded, RecordedAnswer::GivenUp(_)));
        if given_up {
            self.rest.as_ref()
        } else {
            Some(&self.state)
        }
    }

    /// The same answer when an unnamed entry may be about its order too: only the payments that it reports
    /// are certain.
    #[must_use]
    pub fn doubting_the_rest(self, why: &str) -> Self {
        Self {
            rest: Some(State::Unknown(why.to_owned())),
            ..self
        }
    }
}

/// A reply, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// An answer for every order that was asked about, in that order.
    pub answers: Vec<Answer>,
    /// Entries about orders that weren't in the question.
    pub foreign: usize,
    /// Entries that don't name their order: they may be about any.
    pub nameless: usize,
}

/// A reply that can't be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reply can't be read: {0}")]
pub struct Unreadable(String);

/// Reads the reply to a question about these orders.
///
/// # Errors
/// If it isn't a JSON object with a list of payments.
pub(super) fn read(body: &[u8], asked: &[OrderId], livemode: bool) -> Result<Reply, Unreadable> {
    let text = std::str::from_utf8(body).map_err(unreadable)?;
    let object = RawObject::read(text, &["payments"]).map_err(unreadable)?;
    if !object.repeated.is_empty() {
        return Err(Unreadable("payments: appears twice".to_owned()));
    }
    let list = object
        .get("payments")
        .ok_or_else(|| Unreadable("payments: is required".to_owned()))?;
    let list: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(unreadable)?;

    let mut entries: HashMap<&OrderId, Vec<Result<Entry, NotUnderstood>>> = asked
        .iter()
        .map(|order_id| (order_id, Vec::new()))
        .collect();
    let mut reply = Reply {
        answers: Vec::with_capacity(asked.len()),
        foreign: 0,
        nameless: 0,
    };
    for raw in list {
        let Some(order_id) = named(raw.get()) else {
            reply.nameless += 1;
            continue;
        };
        match entries.get_mut(&order_id) {
            Some(of_order) => of_order.push(entry(raw.get(), order_id, livemode)),
            None => reply.foreign += 1,
        }
    }
    reply.answers = asked
        .iter()
        .map(|order_id| answer(entries.remove(order_id).unwrap_or_default()))
        .collect();
    Ok(reply)
}

fn unreadable(error: impl std::fmt::Display) -> Unreadable {
    Unreadable(error.to_string())
}

/// The order that an entry names; an entry may name it and be unreadable otherwise.
fn named(raw: &str) -> Option<OrderId> {
    let object = RawObject::read(raw, &["order_id"]).ok()?;
    if !object.repeated.is_empty() {
        return None;
    }
    let text: String = serde_json::from_str(object.get("order_id")?.get()).ok()?;
    text.parse().ok()
}

enum Entry {
    Paid(PaymentFact),
    Refunded(PaymentFact),
    Unpaid { for_good: bool },
    Pending,
    Unknown,
}

fn entry(raw: &str, order_id: OrderId, livemode: bool) -> Result<Entry, NotUnderstood> {
    let fields = Fields::of(raw, &NAMES)?;
    match fields.string("state")?.as_str() {
        "paid" => fact(&fields, PaymentKind::Succeeded, order_id, livemode).map(Entry::Paid),
        "refunded" => fact(&fields, PaymentKind::Refunded, order_id, livemode).map(Entry::Refunded),
        "unpaid" => Ok(Entry::Unpaid {
            for_good: fields.boolean("final")?.unwrap_or(false),
        }),
        "pending" => Ok(Entry::Pending),
        "unknown" => Ok(Entry::Unknown),
        other => Err(NotUnderstood::new(
            Reason::WrongType,
            format!("state: {other:?} isn't a known state"),
        )),
    }
}

fn fact(
    fields: &Fields<'_>,
    kind: PaymentKind,
    order_id: OrderId,
    livemode: bool,
) -> Result<PaymentFact, NotUnderstood> {
    Ok(PaymentFact {
        key: PaymentKey {
            provider: parsed(fields, "provider", Reason::InvalidProvider)?,
            transaction_id: parsed(fields, "transaction_id", Reason::InvalidId)?,
            kind,
        },
        event_id: None,
        content: content(fields, order_id)?,
        occurred_at: occurred_at(fields)?,
        // The payment service is that of this mode.
        livemode,
        source: Source::Reconciliation,
    })
}

const UNKNOWN: &str = "the payment service doesn't know the order's state";

/// Combines all entries of an order. The most careful reading wins: an entry that can't be read may be the
/// payment.
fn answer(entries: Vec<Result<Entry, NotUnderstood>>) -> Answer {
    if entries.is_empty() {
        return Answer::unknown("the reply doesn't contain the order");
    }
    let mut facts = Vec::new();
    let (mut paid, mut refunded, mut pending, mut unknown) = (false, false, false, false);
    let (mut unpaid, mut for_good) = (false, true);
    for entry in entries {
        match entry {
            Err(fault) => return Answer::unknown(format!("an entry can't be read: {fault}")),
            Ok(Entry::Paid(fact)) => {
                paid = true;
                facts.push(fact);
            }
            Ok(Entry::Refunded(fact)) => {
                refunded = true;
                facts.push(fact);
            }
            Ok(Entry::Unpaid { for_good: this }) => {
                unpaid = true;
                for_good &= this;
            }
            Ok(Entry::Pending) => pending = true,
            Ok(Entry::Unknown) => unknown = true,
        }
    }
    let rest = match () {
        () if unknown => Some(State::Unknown(UNKNOWN.to_owned())),
        () if pending => Some(State::Pending),
        () if refunded => Some(State::Refunded),
        () if unpaid && for_good => Some(State::UnpaidForGood),
        () if unpaid => Some(State::Unpaid),
        () => None,
    };
    match rest {
        _ if paid => Answer {
            state: State::Paid,
            rest,
            facts,
        },
        None | Some(State::Unknown(_)) => Answer::unknown(UNKNOWN),
        Some(state) => Answer {
            rest: Some(state.clone()),
            state,
            facts,
        },
    }
}
