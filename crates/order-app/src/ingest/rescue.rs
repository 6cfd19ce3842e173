//! What was delivered over a connection that broke.
//!
//! A message whose headers the client can't read ends the connection it is delivered over, with
//! everything that was on its way, and does so again at each delivery. So after a break the
//! messages that were delivered and not acked are read from the stream one by one, in a form that
//! no header can hurt, and recorded like any other. Those that another instance holds are
//! duplicates for one of the two.

use tokio_util::sync::CancellationToken;

use super::message::Incoming;
use super::{BATCH_MAX, Ingest};
use crate::nats::TopologyError;

/// Messages that are read one by one after one break; what is left comes with the next.
const RESCUED_MAX: u64 = 5_000;

impl Ingest {
    /// Records what is delivered and not acked.
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
            "what was delivered over a broken connection is read one by one"
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
            if batch.len() >= BATCH_MAX || sequence == last {
                self.step(std::mem::take(&mut batch), shutdown).await;
            }
        }
        Ok(())
    }
}
