//! Runs the parts of the service side by side until the shutdown, or until one of them fails.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures_util::FutureExt as _;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::telemetry::panic_text;

/// How long parts may take to stop; messages that aren't acked by then are redelivered.
const STOP: Duration = Duration::from_secs(11);

/// The parts that are running.
#[derive(Debug, Default)]
pub(super) struct Parts {
    running: JoinSet<Result<()>>,
    names: BTreeMap<Id, &'static str>,
    /// The first failure of a part, if one failed: it decides the exit code.
    failed: Option<anyhow::Error>,
    others_stopped: CancellationToken,
}

/// The part that answers until all others have stopped.
pub(super) const LAST: &str = "http";

impl Parts {
    /// Starts a part. It ends by itself only if it fails.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<()>> + Send + 'static,
    ) {
        let caught = async {
            let ended = AssertUnwindSafe(part).catch_unwind().await;
            ended.unwrap_or_else(|panic| Err(anyhow!("it panicked: {}", panic_text(&*panic))))
        };
        let task = self.running.spawn(caught);
        self.names.insert(task.id(), name);
    }

    /// Cancelled once every part but [`LAST`] has ended.
    pub(super) fn others_stopped(&self) -> CancellationToken {
        self.others_stopped.clone()
    }

    /// Runs the parts until the shutdown, or until one of them ends; then lets the others finish.
    ///
    /// # Errors
    /// With the failure of the first part that failed, however the others ended.
    pub(super) async fn run(
        mut self,
        shutdown: &CancellationToken,
        stop: &CancellationToken,
        health: &Health,
    ) -> Result<()> {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            Some(ended) = self.running.join_next_with_id() => {
                if let Some(name) = self.note(ended)
                    && !shutdown.is_cancelled()
                {
                    self.fail(name, anyhow!("it ended although the service was not stopping"));
                }
            }
        }
        health.drain();
        stop.cancel();
        tracing::info!("service stopping");
        let rest = async {
            while self.names.values().any(|&name| name != LAST)
                && let Some(ended) = self.running.join_next_with_id().await
            {
                self.note(ended);
            }
            self.others_stopped.cancel();
            while let Some(ended) = self.running.join_next_with_id().await {
                self.note(ended);
            }
        };
        if tokio::time::timeout(STOP, rest).await.is_err() {
            let parts: Vec<&str> = self.names.values().copied().collect();
            // What they had in hand isn't acked; it is redelivered to the next process.
            tracing::warn!(
                parts = parts.join(", "),
                "parts of the service did not stop in time and were abandoned; what they had \
                 not acked is redelivered"
            );
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Notes the end of a part; returns its name unless it failed.
    fn note(&mut self, ended: Result<(Id, Result<()>), JoinError>) -> Option<&'static str> {
        let (id, result) = match ended {
            Ok(ended) => ended,
            // It can't panic; only a runtime that is shutting down cancels it.
            Err(error) => (error.id(), Err(error.into())),
        };
        let name = self.names.remove(&id).unwrap_or("a part");
        match result {
            Ok(()) => Some(name),
            Err(error) => {
                self.fail(name, error);
                None
            }
        }
    }

    /// The first failure counts; all are logged at once, since stopping takes its time.
    fn fail(&mut self, name: &'static str, error: anyhow::Error) {
        tracing::error!(
            part = name,
            error = format!("{error:#}"),
            "part of the service failed; the service stops"
        );
        if self.failed.is_none() {
            self.failed = Some(error).map(|error| error.context(format!("{name} failed")));
        }
    }
}

#[cfg(test)]
mod tests;
