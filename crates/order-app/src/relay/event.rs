//! What is published: the contract's events, made from rows of the outbox.

use async_nats::jetstream::message::PublishMessage;
use order_fsm::OrderStatus;
use order_store::{OutboxKey, PaymentException, PublishedTransition, Unpublished};
use serde::Serialize;

use crate::exception_wire::Exception;
use crate::time_format::format;

/// An event, ready to be sent as often as it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    /// The row it comes from; as text the id of the message.
    pub(super) key: OutboxKey,
    /// Its name.
    pub(super) event: &'static str,
    /// The last token of its subject.
    pub(super) token: &'static str,
    /// Its body.
    pub(super) body: Vec<u8>,
}

/// The names of the events of section 2, each with the token of its subject.
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
    /// The message, for a stream and no other: if another one takes the subject, the broker
    /// refuses it.
    pub(super) fn message(&self, stream: &str) -> PublishMessage {
        PublishMessage::build()
            .payload(self.body.clone().into())
            .message_id(self.key.to_string())
            .expected_stream(stream)
    }
}

/// The events of a batch.
pub(super) fn events(batch: Unpublished) -> Vec<Outgoing> {
    let transitions = batch.transitions.into_iter().map(order_event);
    let exceptions = batch.exceptions.into_iter().map(exception_event);
    transitions.chain(exceptions).collect()
}

#[derive(Serialize)]
struct OrderEvent {
    event: &'static str,
    order_id: String,
    version: i64,
    from: Option<&'static str>,
    to: &'static str,
    amount: i64,
    currency: String,
    provider: Option<String>,
    transaction_id: Option<String>,
    source: &'static str,
    reason: Option<String>,
    at: String,
}

#[derive(Serialize)]
struct ExceptionEvent {
    event: &'static str,
    #[serde(flatten)]
    exception: Exception,
}

fn order_event(transition: PublishedTransition) -> Outgoing {
    let (event, token) = match transition.to {
        OrderStatus::NotPaid => EVENTS[0],
        OrderStatus::Paid => EVENTS[1],
        OrderStatus::Shipped => EVENTS[2],
        OrderStatus::Done => EVENTS[3],
        OrderStatus::Cancelled => EVENTS[4],
    };
    let key = OutboxKey::Transition(transition.order_id.clone(), transition.version);
    // Only a payment names one, whatever the row says.
    let paid = transition.to == OrderStatus::Paid;
    let wire = OrderEvent {
        event,
        order_id: transition.order_id.to_string(),
        version: transition.version,
        from: transition.from.map(OrderStatus::as_str),
        to: transition.to.as_str(),
        amount: transition.amount.minor_units(),
        currency: transition.currency.as_str().to_owned(),
        provider: transition.provider.filter(|_| paid).map(|p| p.to_string()),
        transaction_id: transition
            .transaction_id
            .filter(|_| paid)
            .map(|t| t.to_string()),
        source: transition.source.as_str(),
        reason: transition.reason,
        at: format(transition.at),
    };
    Outgoing {
        key,
        event,
        token,
        body: json(&wire),
    }
}

fn exception_event(exception: PaymentException) -> Outgoing {
    let (event, token) = EXCEPTION;
    let key = OutboxKey::Exception(exception.id.clone());
    let wire = ExceptionEvent {
        event,
        exception: exception.into(),
    };
    Outgoing {
        key,
        event,
        token,
        body: json(&wire),
    }
}

fn json(wire: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(wire).expect("texts and numbers are always JSON")
}
