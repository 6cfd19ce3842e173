//! Rescues messages that were delivered over a connection that broke.
//!
//! A message whose headers the client can't parse ends the connection over which it is delivered,
//! with everything that was in flight, and does so again at each delivery. So after a break, the
//! messages that were delivered and not acked are read from the stream one by one, in a form that
//! doesn't parse headers, and recorded like any other. Messages that another instance has in hand
//! become duplicates for one of the two.

use tokio_util::sync::CancellationToken;

use super::Ingest;
use super::message::Incoming;
use crate::nats::TopologyError;

/// The most messages that are read one by one after a break; the rest follows after the next break, or is
/// redelivered.
const RESCUED_MAX: u64 = 5_000;

impl Ingest {
    /// Records the messages that are delivered and not acked.
    pub(super) async fn rescue(&self, shutdown: &CancellationToken) -> Result<(), TopologyError> {
        let info = self.topology.consumer_info().await?;
        if info.num_ack_pending == 0 {
            return Ok(());
        }
        let first = info.ack_floor.stream_sequence + 1;
        let last = info
            .delivered
            .stream_sequence
            .min(first.saturating_add(RESCUED_MAX));
        tracing::warn!(
            first,
            last,
            unacked = info.num_ack_pending,
            "connection broke; the messages delivered over it are read from the stream one by one"
        );
        let mut batch = Vec::new();
        for sequence in first..=last {
            if shutdown.is_cancelled() {
                return Ok(());
            }
            if let Some(stored) = self.topology.stored_message(sequence).await? {
                let prefix = self.topology.inbound_subject();
                let inbound = stored.subject.strip_prefix(prefix);
                if inbound.is_some_and(|rest| rest.starts_with('.')) {
                    batch.push(Incoming::stored(stored, &info.stream_name, &info.name));
                }
            }
            if batch.len() >= self.size.max() || sequence == last {
                self.step(std::mem::take(&mut batch), shutdown).await;
            }
        }
        Ok(())
    }
}
