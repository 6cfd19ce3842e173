//! A consumer that doesn't belong to its stream as it is now.
//!
//! After a crash, or when a copy was restored, a durable can be ahead of its stream, or belong to a
//! former stream of the same name; on nats-server 2.9.10, one whose filter was changed passes over
//! everything. It then skips new messages silently. When it reads again from the beginning,
//! everything old is a duplicate.

use async_nats::jetstream::consumer::{DeliverPolicy, Info as ConsumerInfo};
use async_nats::jetstream::stream::Info as StreamInfo;
use time::{Duration, OffsetDateTime};

/// The tolerance between the clocks of two servers; in a cluster they differ by far less.
const CLOCKS_APART: Duration = Duration::MINUTE;

/// When stream and consumer were created, as they were last seen together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) stream: OffsetDateTime,
    pub(super) consumer: OffsetDateTime,
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

/// The sequence from which the consumer may have passed over a message: more was delivered than
/// acked, and nothing is pending. That is normal if the stream has other subjects too, so it isn't
/// a proof.
pub(super) fn suspect(consumer: &ConsumerInfo) -> Option<u64> {
    let (delivered, acked) = (&consumer.delivered, &consumer.ack_floor);
    let rests = consumer.num_ack_pending == 0 && consumer.num_pending == 0;
    if !rests || delivered.stream_sequence <= acked.stream_sequence {
        return None;
    }
    let first = acked.stream_sequence + 1;
    if acked.consumer_sequence > 0 {
        return Some(first);
    }
    // Nothing was acked yet: messages before its start aren't passed over.
    match consumer.config.deliver_policy {
        DeliverPolicy::All => Some(first),
        DeliverPolicy::ByStartSequence { start_sequence } => Some(first.max(start_sequence)),
        DeliverPolicy::Last
        | DeliverPolicy::New
        | DeliverPolicy::LastPerSubject
        | DeliverPolicy::ByStartTime { .. } => None,
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
        // The stream was recreated under it.
        check(&consumer(10, 3, 3), &stream(9, 7), Some((8, 10)), true);
        check(&consumer(11, 3, 3), &stream(9, 7), Some((8, 10)), false);
    }

    #[test]
    fn messages_may_be_passed_over_where_more_was_delivered_than_acked_and_nothing_is_on_its_way() {
        let suspects = |delivered, acked, change: &dyn Fn(&mut ConsumerInfo)| {
            let mut consumer = consumer(10, delivered, acked);
            change(&mut consumer);
            suspect(&consumer)
        };
        assert_eq!(suspects(7, 7, &|_| ()), None);
        assert_eq!(suspects(7, 2, &|_| ()), Some(3));
        assert_eq!(suspects(7, 0, &|_| ()), Some(1));
        assert_eq!(
            suspects(7, 2, &|consumer| consumer.num_ack_pending = 1),
            None
        );
        assert_eq!(suspects(7, 2, &|consumer| consumer.num_pending = 1), None);
        let new = |consumer: &mut ConsumerInfo| consumer.config.deliver_policy = DeliverPolicy::New;
        assert_eq!(suspects(7, 0, &new), None, "it starts later");
        assert_eq!(suspects(7, 2, &new), Some(3), "it has started");
        let fifth = |consumer: &mut ConsumerInfo| {
            consumer.config.deliver_policy = DeliverPolicy::ByStartSequence { start_sequence: 5 };
        };
        assert_eq!(suspects(7, 0, &fifth), Some(5));
    }
}
