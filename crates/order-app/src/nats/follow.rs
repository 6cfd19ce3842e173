//! Looks at the consumer and its stream while the service runs, and repairs what it finds.

use async_nats::jetstream::consumer::Info as ConsumerInfo;

use super::astray::{Seen, astray, suspect};
use super::error::TopologyError;
use super::fitness::Role;
use super::topology::Topology;

impl Topology {
    /// Checks the consumer and its stream. A consumer with other settings is repaired; one that
    /// doesn't belong to its stream is recreated, reading from the beginning.
    pub(super) async fn follow_consumer(&self) -> Result<ConsumerInfo, TopologyError> {
        // In this order, everything delivered to the consumer is in the stream when that is read.
        let consumer = self.consumer_info().await?;
        let stream = self.inbound_info().await?;
        self.check(Role::Inbound, &stream.config)?;
        let seen = Seen {
            stream: stream.created,
            consumer: consumer.created,
        };
        let mut why = astray(&consumer, &stream, self.swap_seen(seen));
        if why.is_none() {
            why = self.passed_over(&consumer).await;
        }
        match why {
            Some(why) => self.renew_consumer(&consumer, &why).await,
            None if self.is_as_wanted(&consumer).await => Ok(consumer),
            None => {
                let stream = self.ensure_inbound().await?;
                self.ensure_consumer(&stream).await
            }
        }
    }

    /// Why the consumer is suspected of having passed over a message, if it is.
    async fn passed_over(&self, consumer: &ConsumerInfo) -> Option<String> {
        let first = suspect(consumer)?;
        let stream = self.context.get_stream_no_info(&consumer.stream_name);
        let found = stream
            .await
            .ok()?
            .get_first_raw_message_by_subject(self.filter(), first)
            .await;
        match found {
            Ok(message) if message.sequence <= consumer.delivered.stream_sequence => Some(format!(
                "it passed over message {} without delivering it",
                message.sequence
            )),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(
                    error = %error,
                    "stream not searched for messages that the consumer passed over"
                );
                None
            }
        }
    }
}
