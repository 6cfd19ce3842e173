//! Tries held messages again, until they are recorded or the service stops.

use async_nats::jetstream::AckKind;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Ingest;
use crate::ingest::progress::Progress;

impl Ingest {
    /// Tries held messages again when they are due, until `shutdown`; then returns them to the
    /// broker.
    pub(crate) async fn release_held(self, shutdown: CancellationToken) {
        let mut progress = Progress::new();
        while !shutdown.is_cancelled() {
            let next = self.held.next_due();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.held.changed.notified() => {}
                () = tokio::time::sleep_until(progress.0) => {
                    self.notify(&self.held.acks(), AckKind::Progress).await;
                    progress = Progress::new();
                }
                () = until(next) => {
                    let due = self.held.due(self.size.max(), Instant::now());
                    let left = self.commit(due, true, &shutdown).await;
                    self.held.untried(&left, Instant::now());
                }
            }
        }
        let acks = self.held.close();
        if !acks.is_empty() {
            tracing::warn!(
                messages = acks.len(),
                "held messages returned to the broker"
            );
        }
        self.notify(&acks, AckKind::Nak(None)).await;
    }
}

/// Waits until this time; without one, for ever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
