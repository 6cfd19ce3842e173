//! What the payment service answered. Pure, total, never panics: entries are read one by one, and
//! whatever isn't a definite answer is *unknown*.

use std::collections::HashMap;

use order_fsm::{OrderId, PaymentKey, PaymentKind};
use order_store::{PaymentFact, Source};
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

/// What is said about an order, all its entries taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What follows from it.
    pub state: State,
    /// The payments it tells of.
    pub facts: Vec<PaymentFact>,
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It was paid.
    Paid,
    /// It was paid, and the money went back.
    Refunded,
    /// It was not paid and can't be any more.
    UnpaidForGood,
    /// It was not paid yet.
    Unpaid,
    /// A payment is on its way.
    Pending,
    /// Nothing is known, for this reason.
    Unknown(String),
}

impl Answer {
    /// No answer, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            state: State::Unknown(why.into()),
            facts: Vec::new(),
        }
    }
}

/// A reply, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// An answer for every order that was asked about, in that order.
    pub answers: Vec<Answer>,
    /// Entries about orders that nobody asked about.
    pub foreign: usize,
    /// Entries that don't say which order they are about: it may be any.
    pub nameless: usize,
}

/// A reply that can't be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reply can't be read: {0}")]
pub struct Unreadable(String);

/// Reads the reply to a question about these orders.
///
/// # Errors
/// If it is no JSON object with a list of payments.
pub(super) fn read(body: &[u8], asked: &[OrderId], livemode: bool) -> Result<Reply, Unreadable> {
    let text = std::str::from_utf8(body).map_err(unreadable)?;
    let object = RawObject::read(text, &["payments"]).map_err(unreadable)?;
    if !object.repeated.is_empty() {
        return Err(Unreadable("payments: stands there twice".to_owned()));
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

/// The order an entry is about, if it says so: also one that is otherwise unreadable.
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
            format!("state: {other:?} is none"),
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
        // The service that is asked is the one of this mode.
        livemode,
        source: Source::Reconciliation,
    })
}

/// All entries of an order together. The rarer and the more careful reading wins: whatever can't
/// be read may be the payment.
fn answer(entries: Vec<Result<Entry, NotUnderstood>>) -> Answer {
    if entries.is_empty() {
        return Answer::unknown("the reply leaves it out");
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
    let state = match () {
        () if paid => State::Paid,
        () if unknown => return Answer::unknown("the payment service doesn't know"),
        () if pending => State::Pending,
        () if refunded => State::Refunded,
        () if unpaid && for_good => State::UnpaidForGood,
        () => State::Unpaid,
    };
    Answer { state, facts }
}
