//! The allow-list of transitions and what follows from it.

use std::fmt;
use std::fmt::Write as _;

use crate::{OrderEvent, OrderStatus};

/// A legal transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The status the order must have: the guard of the update.
    pub from: OrderStatus,
    /// The status it has afterwards.
    pub to: OrderStatus,
}

impl Transition {
    /// The only transition that `event` can cause. Its `from` is the expected status of the guarded
    /// update: there is exactly one, so a single comparison decides every race.
    pub const fn of(event: OrderEvent) -> Self {
        let from = match event {
            OrderEvent::Pay | OrderEvent::Cancel => OrderStatus::NotPaid,
            OrderEvent::Ship => OrderStatus::Paid,
            OrderEvent::Complete => OrderStatus::Shipped,
        };
        Self {
            from,
            to: event.target(),
        }
    }
}

/// What an event means for an order in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Legal: update the order under the guard `from`.
    Advance(Transition),
    /// The order has the event's target status already; that isn't an error.
    AlreadyThere,
    /// Not legal, with the reason.
    Refused(Refusal),
}

/// Why an event is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The order has not been paid yet.
    NotPaidYet,
    /// The order has not been shipped yet.
    NotShippedYet,
    /// The order has been paid already.
    AlreadyPaid,
    /// The order has been shipped already.
    AlreadyShipped,
    /// The order is done, which is terminal.
    AlreadyDone,
    /// The order is cancelled, which is terminal.
    AlreadyCancelled,
}

impl Refusal {
    /// A short phrase for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPaidYet => "not paid yet",
            Self::NotShippedYet => "not shipped yet",
            Self::AlreadyPaid => "already paid",
            Self::AlreadyShipped => "already shipped",
            Self::AlreadyDone => "already done",
            Self::AlreadyCancelled => "already cancelled",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Decides what `event` means for an order in `status`: this match is the whole allow-list.
///
/// It is nested instead of matching a tuple, so that a new status or event breaks the build on its level.
pub const fn decide(status: OrderStatus, event: OrderEvent) -> Decision {
    use Decision::{AlreadyThere, Refused};

    let advance = Decision::Advance(Transition::of(event));
    match status {
        OrderStatus::NotPaid => match event {
            OrderEvent::Pay | OrderEvent::Cancel => advance,
            OrderEvent::Ship => Refused(Refusal::NotPaidYet),
            OrderEvent::Complete => Refused(Refusal::NotShippedYet),
        },
        OrderStatus::Paid => match event {
            OrderEvent::Pay => AlreadyThere,
            OrderEvent::Ship => advance,
            OrderEvent::Complete => Refused(Refusal::NotShippedYet),
            OrderEvent::Cancel => Refused(Refusal::AlreadyPaid),
        },
        OrderStatus::Shipped => match event {
            OrderEvent::Pay => Refused(Refusal::AlreadyPaid),
            OrderEvent::Ship => AlreadyThere,
            OrderEvent::Complete => advance,
            OrderEvent::Cancel => Refused(Refusal::AlreadyShipped),
        },
        OrderStatus::Done => match event {
            OrderEvent::Pay => Refused(Refusal::AlreadyPaid),
            OrderEvent::Ship | OrderEvent::Cancel => Refused(Refusal::AlreadyDone),
            OrderEvent::Complete => AlreadyThere,
        },
        OrderStatus::Cancelled => match event {
            OrderEvent::Pay | OrderEvent::Ship | OrderEvent::Complete => {
                Refused(Refusal::AlreadyCancelled)
            }
            OrderEvent::Cancel => AlreadyThere,
        },
    }
}

/// The state machine as a Mermaid diagram, drawn from the allow-list.
pub fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n    [*] --> NOT_PAID: create\n");
    for status in OrderStatus::ALL {
        for event in OrderEvent::ALL {
            if let Decision::Advance(step) = decide(status, event) {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "    {} --> {}: {event}", step.from, step.to);
            }
        }
        if status.is_terminal() {
            let _ = writeln!(text, "    {status} --> [*]");
        }
    }
    text
}
