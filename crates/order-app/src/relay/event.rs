//! The order events of the contract, made from rows of the outbox.

use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use order_fsm::{OrderStatus, Provider, TransactionId};
use order_store::{EventBody, OutboxKey, PaymentException, PublishedTransition};
use serde::Serialize;

use crate::time_format::format;
use crate::wire::Exception;

/// An event, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    /// What it is about; its text form is the id of the message.
    pub(super) key: OutboxKey,
    /// Its name.
    pub(super) event: &'static str,
    /// The last token of its subject.
    pub(super) token: &'static str,
    /// Its body.
    pub(super) body: Bytes,
}

/// The names of the events, each with the last token of its subject.
pub(super) const EVENTS: [(&str, &str); 6] = [
    ("order.created", "created"),
    ("order.paid", "paid"),
    ("order.shipped", "shipped"),
    ("order.done", "done"),
    ("order.cancelled", "cancelled"),
    EXCEPTION,
];

const EXCEPTION: (&str, &str) = ("payment.exception", "payment_exception");

impl Outgoing {
    /// The event of an outbox row.
    pub(super) fn of(body: &EventBody) -> Self {
        match body {
            EventBody::Transition(transition) => order_event(transition),
            EventBody::Exception(exception) => exception_event(exception),
        }
    }

    /// The message, for this stream only: if another one has taken over the subject, the broker refuses it.
    pub(super) fn message(&self, stream: &str) -> PublishMessage {
        PublishMessage::build()
            .payload(self.body.clone())
            .message_id(self.key.to_string())
            .expected_stream(stream)
    }
}

/// The token of an event by its name; `unknown` for what can't be read.
pub(super) const UNKNOWN: &str = "unknown";

#[derive(Serialize)]
struct OrderEvent<'a> {
    event: &'static str,
    order_id: &'a str,
    version: i64,
    from: Option<&'static str>,
    to: &'static str,
    amount: i64,
    currency: &'a str,
    provider: Option<&'a str>,
    transaction_id: Option<&'a str>,
    source: &'static str,
    reason: Option<&'a str>,
    at: String,
}

#[derive(Serialize)]
struct ExceptionEvent {
    event: &'static str,
    #[serde(flatten)]
    exception: Exception,
}

fn order_event(transition: &PublishedTransition) -> Outgoing {
    let (event, token) = match transition.to {
        OrderStatus::NotPaid => EVENTS[0],
        OrderStatus::Paid => EVENTS[1],
        OrderStatus::Shipped => EVENTS[2],
        OrderStatus::Done => EVENTS[3],
        OrderStatus::Cancelled => EVENTS[4],
    };
    let (id, version, at) = (&transition.order_id, transition.version, transition.at);
    // Only `order.paid` names a payment, whatever the row says.
    let paid = transition.to == OrderStatus::Paid;
    let wire = OrderEvent {
        event,
        order_id: id.as_str(),
        version,
        from: transition.from.map(OrderStatus::as_str),
        to: transition.to.as_str(),
        amount: transition.amount.minor_units(),
        currency: transition.currency.as_str(),
        provider: transition
            .provider
            .as_ref()
            .filter(|_| paid)
            .map(Provider::as_str),
        transaction_id: transition
            .transaction_id
            .as_ref()
            .filter(|_| paid)
            .map(TransactionId::as_str),
        source: transition.source.as_str(),
        reason: transition.reason.as_deref(),
        at: format(at),
    };
    Outgoing {
        key: OutboxKey::Transition(id.clone(), version, at),
        event,
        token,
        body: json(&wire),
    }
}

fn exception_event(exception: &PaymentException) -> Outgoing {
    let (event, token) = EXCEPTION;
    let key = OutboxKey::Exception(exception.id.clone());
    let wire = ExceptionEvent {
        event,
        exception: exception.clone().into(),
    };
    Outgoing {
        key,
        event,
        token,
        body: json(&wire),
    }
}

fn json(wire: &impl Serialize) -> Bytes {
    serde_json::to_vec(wire)
        .expect("texts and numbers are always JSON")
        .into()
}
