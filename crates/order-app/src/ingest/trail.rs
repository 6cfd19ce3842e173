//! One line per message, so that a payment can be followed from its message to its ack.
//!
//! Ids and verdicts only: no body, no header. At debug level, since there may be thousands of messages a
//! second.

use super::outcome::Outcome;
use super::{Entry, Item};

/// Logs messages that are committed.
pub(super) fn committed(entries: &[Entry], outcomes: &[Outcome]) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    for (Entry { message, item }, outcome) in entries.iter().zip(outcomes) {
        let verdict = outcome.as_str();
        match item {
            Item::Fact(fact) => tracing::debug!(
                stream.sequence = message.sequence,
                message.delivered = message.delivered,
                event.id = fact.event_id.as_ref().map(tracing::field::display),
                order.id = %fact.content.order_id,
                payment.provider = %fact.key.provider,
                payment.transaction_id = %fact.key.transaction_id,
                payment.kind = %fact.key.kind,
                verdict,
                "payment event recorded"
            ),
            Item::Letter(letter) => tracing::debug!(
                stream.sequence = message.sequence,
                message.delivered = message.delivered,
                reason = letter.reason,
                verdict,
                "dead letter recorded"
            ),
        }
    }
}
