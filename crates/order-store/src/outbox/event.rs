//! Events as they are read from the outbox.

use std::fmt;

use order_fsm::OrderId;
use time::OffsetDateTime;

use super::line::{self, Line, PublishedTransition};
use crate::error::Error;
use crate::payment_exception::PaymentException;
use crate::ts::Ts;

/// Names an event. As text it is the id of the published message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OutboxKey {
    /// The step of an order to a version, at a time: a step that is taken again after the database was
    /// set back is another one.
    Transition(OrderId, i64, OffsetDateTime),
    /// An exception.
    Exception(String),
}

impl fmt::Display for OutboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transition(order_id, version, at) => {
                write!(f, "{order_id}/{version}/{}", Ts(*at).micros())
            }
            Self::Exception(id) => f.write_str(id),
        }
    }
}

/// What an event contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventBody {
    /// A step of an order, as it was committed.
    Transition(Box<PublishedTransition>),
    /// An exception as it is now.
    Exception(Box<PaymentException>),
}

/// An event of the outbox.
#[derive(Debug)]
pub struct OutboxEvent {
    /// The order and the version it is about, if it is a transition: of an order, events are published one
    /// after the other.
    pub order: Option<(String, i64)>,
    /// What it contains, or why that can't be read.
    pub body: Result<EventBody, Error>,
    /// Whether publishing it may have been tried before, by anybody.
    pub tried: bool,
    /// Since when it waits.
    pub(super) since: Ts,
    pub(super) line: String,
    pub(super) place: Place,
}

/// Where an event lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In a row of the outbox, with others.
    Outbox { seq: i64 },
    /// Set aside, alone.
    Aside {
        name: String,
        version: i64,
        kind: String,
    },
}

/// An event whose exception isn't read yet.
pub(super) struct Raw {
    pub(super) line: String,
    pub(super) since: Ts,
    pub(super) tried: bool,
    pub(super) place: Place,
}

impl Raw {
    /// The id of the exception that it is about, if it is one.
    pub(super) fn exception(&self) -> Option<String> {
        match line::parse(&self.line) {
            (None, Ok(Line::Exception(id))) => Some(id),
            _ => None,
        }
    }

    /// The event; `exceptions` finds an exception by its id.
    pub(super) fn into_event(
        self,
        exceptions: impl FnOnce(&str) -> Result<PaymentException, Error>,
    ) -> OutboxEvent {
        let Self {
            line,
            since,
            tried,
            place,
        } = self;
        let (order, read) = line::parse(&line);
        let body = read.and_then(|read| match read {
            Line::Transition(transition) => Ok(EventBody::Transition(transition)),
            Line::Exception(id) => exceptions(&id).map(Box::new).map(EventBody::Exception),
        });
        OutboxEvent {
            order,
            body,
            tried,
            since,
            line,
            place,
        }
    }
}

impl OutboxEvent {
    /// Whether it is set aside already.
    pub fn is_set_aside(&self) -> bool {
        match self.place {
            Place::Outbox { .. } => false,
            Place::Aside { .. } => true,
        }
    }

    /// The name and the version under which it is set aside.
    pub(super) fn name(&self, number: usize) -> (String, i64) {
        if let Place::Aside { name, version, .. } = &self.place {
            return (name.clone(), *version);
        }
        match (&self.order, &self.body) {
            (Some((order_id, version)), _) => (order_id.clone(), *version),
            (None, Ok(EventBody::Exception(exception))) => (exception.id.clone(), 0),
            // No id begins with a question mark.
            (None, _) => {
                let seq = match self.place {
                    Place::Outbox { seq } => seq,
                    Place::Aside { .. } => 0,
                };
                (format!("?{seq}.{number}"), 0)
            }
        }
    }
}
