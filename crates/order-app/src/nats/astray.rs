//! A consumer that doesn't belong to its stream as it is now.
//!
//! After a crash or a restored copy a durable can stand ahead of its stream, or have been made for
//! another stream of the same name. It then skips new messages in silence. Read again from the
//! beginning, everything old is a duplicate.

use async_nats::jetstream::consumer::Info as ConsumerInfo;
use async_nats::jetstream::stream::Info as StreamInfo;
use metrics::counter;
use time::{Duration, OffsetDateTime};

use super::topology::{Topology, TopologyError};

/// The clocks of two servers of a cluster differ by far less.
const CLOCKS_APART: Duration = Duration::MINUTE;

/// When stream and consumer were made, as they were last seen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    stream: OffsetDateTime,
    consumer: OffsetDateTime,
}

/// Why a consumer doesn't belong to its stream, if it doesn't.
pub(super) fn astray(
    consumer: &ConsumerInfo,
    stream: &StreamInfo,
    before: Option<Seen>,
) -> Option<String> {
    let last = stream.state.last_sequence;
    let reached = consumer
        .delivered
        .stream_sequence
        .max(consumer.ack_floor.stream_sequence);
    if reached > last {
        return Some(format!(
            "it has read up to {reached}, but the stream ends at {last}"
        ));
    }
    if consumer.created + CLOCKS_APART < stream.created {
        return Some(format!(
            "it was made at {}, before its stream at {}",
            consumer.created, stream.created
        ));
    }
    match before {
        Some(seen) if seen.consumer == consumer.created && seen.stream != stream.created => {
            Some(format!("its stream was made anew at {}", stream.created))
        }
        _ => None,
    }
}

impl Topology {
    /// Looks at the consumer and its stream; one that went astray is made again, reading from the
    /// beginning. Returns how many messages the consumer has not been given yet.
    pub(super) async fn follow_consumer(&self) -> Result<u64, TopologyError> {
        // In this order: what the consumer has been given by now is in the stream by then.
        let consumer = self.consumer_info().await?;
        let stream = self.inbound_info().await?;
        let seen = Seen {
            stream: stream.created,
            consumer: consumer.created,
        };
        if let Some(why) = astray(&consumer, &stream, self.swap_seen(seen)) {
            tracing::error!(
                consumer.name = %consumer.name,
                stream.name = %consumer.stream_name,
                why,
                "the consumer went astray and is made again; it reads from the beginning"
            );
            counter!("orderd_consumer_recreated_total").increment(1);
            self.recreate_consumer().await?;
        }
        Ok(consumer.num_pending)
    }
}
