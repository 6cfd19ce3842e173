//! Keeps messages in progress while work on them lasts: the broker would deliver them again.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use tokio::time::Instant;

use super::Ingest;
use crate::nats::ACK_WAIT;

/// When the next "in progress" is due.
pub(super) struct Progress(pub(super) Instant);

impl Progress {
    /// How often it is sent: three times before the broker would redeliver.
    pub(super) const EVERY: Duration = Duration::from_secs(ACK_WAIT.as_secs() / 3);

    pub(super) fn new() -> Self {
        Self(Instant::now() + Self::EVERY)
    }
}

impl Ingest {
    /// Does some work, and keeps messages in progress meanwhile.
    pub(super) async fn keep_in_progress<T>(
        &self,
        progress: &mut Progress,
        in_hand: impl Fn() -> Vec<String> + Sync,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep_until(progress.0) => {
                    self.notify(&in_hand(), AckKind::Progress).await;
                    *progress = Progress::new();
                }
            }
        }
    }
}
