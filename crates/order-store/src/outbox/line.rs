//! An event as a line of the outbox: JSON, written with the transaction and read by the relay.
//!
//! `["t",order,version,from,to,amount,currency,provider,transaction,source,reason,microseconds]` is a
//! transition, with all that its event contains; `["x",id]` is an exception, which is read when it is
//! published. `front` makes the same lines in SQL.

use order_fsm::{Amount, Currency, OrderId, OrderStatus, Provider, TransactionId};
use serde_json::Value;
use time::OffsetDateTime;

use crate::error::Error;
use crate::rows::Row;
use crate::source::Source;
use crate::transitions::NewTransition;
use crate::ts::Ts;

/// A step of an order, with all that its event contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTransition {
    /// Which order.
    pub order_id: OrderId,
    /// The version it led to.
    pub version: i64,
    /// The status before; absent for the creation.
    pub from: Option<OrderStatus>,
    /// The status after.
    pub to: OrderStatus,
    /// What the order costs.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// The payment behind it.
    pub provider: Option<Provider>,
    /// The payment behind it.
    pub transaction_id: Option<TransactionId>,
    /// Which way it came in.
    pub source: Source,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: OffsetDateTime,
}

/// Stands for the order and the version of an event that doesn't say them.
pub(crate) const UNNAMED: &str = "?";

/// Line breaks inside of them are escaped.
const ALWAYS_JSON: &str = "texts and numbers are always JSON";

/// The content of a line.
#[derive(Debug)]
pub(super) enum Line {
    Transition(Box<PublishedTransition>),
    Exception(String),
}

/// The order and the version that a line is about, if it is a transition.
pub(super) type About = Option<(String, i64)>;

pub(crate) fn transition_line(row: &NewTransition<'_>) -> String {
    serde_json::to_string(&(
        "t",
        row.order_id,
        row.version,
        row.from.map(OrderStatus::as_str),
        row.to.as_str(),
        row.amount.minor_units(),
        row.currency.as_str(),
        row.payment.map(|payment| payment.provider),
        row.payment.map(|payment| payment.transaction_id),
        row.source.as_str(),
        row.reason,
        row.at.micros(),
    ))
    .expect(ALWAYS_JSON)
}

pub(crate) fn exception_line(id: &str) -> String {
    serde_json::to_string(&("x", id)).expect(ALWAYS_JSON)
}

type TransitionLine = (
    String,
    String,
    i64,
    Option<String>,
    String,
    i64,
    String,
    Option<String>,
    Option<String>,
    String,
    Option<String>,
    i64,
);

/// Reads a line. Of a transition that this version doesn't understand, the order is known all the same.
pub(super) fn parse(line: &str) -> (About, Result<Line, Error>) {
    if let Ok((tag, id)) = serde_json::from_str::<(String, String)>(line)
        && tag == "x"
    {
        return (None, Ok(Line::Exception(id)));
    }
    match serde_json::from_str::<TransitionLine>(line) {
        Ok(fields) if fields.0 == "t" => {
            let about = Some((fields.1.clone(), fields.2));
            (
                about,
                transition(fields).map(Box::new).map(Line::Transition),
            )
        }
        Ok(_) => (
            about(line),
            Err(unreadable(line, "isn't a known kind of event")),
        ),
        Err(error) => (about(line), Err(unreadable(line, error))),
    }
}

/// Whether all lines of a row can be read.
pub(crate) fn check_lines(content: &str) -> Result<(), Error> {
    content.lines().try_for_each(check_line)
}

/// Whether a line can be read.
pub(crate) fn check_line(line: &str) -> Result<(), Error> {
    parse(line).1.map(drop)
}

fn transition(fields: TransitionLine) -> Result<PublishedTransition, Error> {
    let (
        _,
        order_id,
        version,
        from,
        to,
        amount,
        currency,
        provider,
        transaction,
        source,
        reason,
        at,
    ) = fields;
    let id = format!("{order_id}/{version}");
    let row = Row {
        table: "outbox",
        id: &id,
    };
    Ok(PublishedTransition {
        order_id: row.column("order_id", order_id.parse())?,
        version,
        from: from
            .map(|text| row.column("from_status", text.parse()))
            .transpose()?,
        to: row.column("to_status", to.parse())?,
        amount: row.column("amount", amount.try_into())?,
        currency: row.column("currency", currency.parse())?,
        provider: provider
            .map(|text| row.column("provider", text.parse()))
            .transpose()?,
        transaction_id: transaction
            .map(|text| row.column("transaction_id", text.parse()))
            .transpose()?,
        source: row.column("source", source.parse())?,
        reason,
        at: row.column("at", Ts::from_micros(at))?.0,
    })
}

fn about(line: &str) -> About {
    let Ok(Value::Array(fields)) = serde_json::from_str(line) else {
        return None;
    };
    match &fields[..] {
        [
            Value::String(tag),
            Value::String(order_id),
            Value::Number(version),
            ..,
        ] if tag == "t" => Some((order_id.clone(), version.as_i64()?)),
        _ => None,
    }
}

fn unreadable(line: &str, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let id = match about(line) {
        Some((order_id, version)) => format!("{order_id}/{version}"),
        None => UNNAMED.to_owned(),
    };
    Error::Inconsistent {
        table: "outbox",
        column: "content",
        id,
        source: why.into(),
    }
}
