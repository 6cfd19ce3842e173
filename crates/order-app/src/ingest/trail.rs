//! One line per message, so that a payment can be followed from its message to its ack.
//!
//! Ids and verdicts only: no body, no header. At debug level, where thousands of messages a second
//! are not written about unless somebody asks.

use order_fsm::Verdict;
use order_store::PaymentFact;

use super::Item;
use super::message::Incoming;
use super::record::{DEAD_LETTER, Outcome};

/// What is to be told about a batch; nothing if nobody listens.
pub(super) struct Trail(Vec<Step>);

enum Step {
    Fact(Box<PaymentFact>),
    Letter(&'static str),
}

impl Trail {
    pub(super) fn of(items: &[Item]) -> Self {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return Self(Vec::new());
        }
        let steps = items.iter().map(|item| match item {
            Item::Fact(fact) => Step::Fact(Box::new(fact.clone())),
            Item::Letter(letter) => Step::Letter(letter.reason),
        });
        Self(steps.collect())
    }

    pub(super) fn committed(&self, messages: &[Incoming], outcomes: &[Outcome]) {
        for ((step, message), outcome) in self.0.iter().zip(messages).zip(outcomes) {
            let verdict = outcome.map_or(DEAD_LETTER, Verdict::as_str);
            match step {
                Step::Fact(fact) => tracing::debug!(
                    stream.sequence = message.sequence,
                    message.delivered = message.delivered,
                    event.id = fact.event_id.as_ref().map(tracing::field::display),
                    order.id = %fact.content.order_id,
                    payment.provider = %fact.key.provider,
                    payment.transaction_id = %fact.key.transaction_id,
                    payment.kind = %fact.key.kind,
                    verdict,
                    "a payment event is recorded"
                ),
                Step::Letter(reason) => tracing::debug!(
                    stream.sequence = message.sequence,
                    message.delivered = message.delivered,
                    reason,
                    verdict,
                    "a message that is not understood is recorded"
                ),
            }
        }
    }
}
