//! A consumer that doesn't belong to its stream as it is now.
//!
//! After a crash or a restored copy a durable can stand ahead of its stream, or have been made for
//! another stream of the same name. It then skips new messages in silence. Read again from the
//! beginning, everything old is a duplicate.

use async_nats::jetstream::consumer::{Info as ConsumerInfo, pull};
use async_nats::jetstream::stream::Info as StreamInfo;
use metrics::counter;
use time::{Duration, OffsetDateTime};

use super::consumer::{consumer_config, differences};
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
    fn wanted_consumer(&self) -> pull::Config {
        consumer_config(&self.config.consumer, self.filter())
    }

    /// Looks at the consumer and its stream; one that differs is put right, one that went astray is made again, reading from the
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
        } else if !differences(&consumer.config, &self.wanted_consumer()).is_empty() {
            let stream = self.ensure_inbound().await?;
            self.ensure_consumer(&stream).await?;
        }
        Ok(consumer.num_pending)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::format_description::well_known::Rfc3339;

    use super::*;

    fn at(minute: i64) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::minutes(minute)
    }

    fn consumer(created: i64, delivered: u64, acked: u64) -> ConsumerInfo {
        let sequences = |stream: u64| json!({"consumer_seq": stream, "stream_seq": stream});
        serde_json::from_value(json!({
            "stream_name": "PAYMENTS", "name": "orderd",
            "created": at(created).format(&Rfc3339).unwrap(),
            "config": {"durable_name": "orderd", "deliver_policy": "all", "ack_policy": "explicit",
                       "replay_policy": "instant"},
            "delivered": sequences(delivered), "ack_floor": sequences(acked),
            "num_ack_pending": 0, "num_redelivered": 0, "num_waiting": 0, "num_pending": 0,
        }))
        .unwrap()
    }

    fn stream(created: i64, last: u64) -> StreamInfo {
        let time = at(created).format(&Rfc3339).unwrap();
        serde_json::from_value(json!({
            "created": time, "config": {"name": "PAYMENTS", "retention": "limits",
            "storage": "file", "discard": "new", "max_consumers": -1, "max_msgs": -1,
            "max_bytes": -1, "max_age": 0, "max_msgs_per_subject": -1, "num_replicas": 1,
            "subjects": ["payments.events.>"]},
            "state": {"messages": last, "bytes": 0, "first_seq": 1, "first_ts": time,
                      "last_seq": last, "last_ts": time, "consumer_count": 1},
        }))
        .unwrap()
    }

    fn check(consumer: &ConsumerInfo, stream: &StreamInfo, before: Option<(i64, i64)>, lost: bool) {
        let before = before.map(|(stream, consumer)| Seen {
            stream: at(stream),
            consumer: at(consumer),
        });
        let why = astray(consumer, stream, before);
        assert_eq!(why.is_some(), lost, "{why:?}");
    }

    #[test]
    fn a_consumer_belongs_to_the_stream_it_was_made_for_and_stands_within_it() {
        check(&consumer(10, 0, 0), &stream(10, 0), None, false);
        check(&consumer(10, 7, 5), &stream(10, 7), Some((10, 10)), false);
        check(&consumer(10, 8, 5), &stream(10, 7), Some((10, 10)), true);
        check(&consumer(10, 0, 8), &stream(10, 7), None, true);
        // Clocks of a cluster: a second apart is nothing, an hour is another stream.
        check(&consumer(10, 0, 0), &stream(11, 7), None, false);
        check(&consumer(10, 0, 0), &stream(70, 7), None, true);
        // Made anew under its feet.
        check(&consumer(10, 3, 3), &stream(9, 7), Some((8, 10)), true);
        check(&consumer(11, 3, 3), &stream(9, 7), Some((8, 10)), false);
    }
}
