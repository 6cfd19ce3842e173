//! Runs inside `serve`: on schedule, and when the API starts one.

use std::time::Duration;

use order_store::{Run, RunStart, StartedBy};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::Reconciler;
use crate::telemetry::chain;

/// Carries out runs until `shutdown`: those that the API started, which come through `begun`, and
/// one `every` interval, if set. A scheduled run is skipped and counted while another one is
/// running.
pub async fn run_scheduled(
    reconciler: Reconciler,
    every: Option<Duration>,
    mut begun: mpsc::Receiver<Run>,
    shutdown: CancellationToken,
) {
    let mut runs = JoinSet::new();
    let mut ticks = every.map(|every| {
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    loop {
        let run = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(run) = begun.recv() => Some(run),
            Some(ended) = runs.join_next(), if !runs.is_empty() => {
                if let Err(panicked) = ended {
                    std::panic::resume_unwind(panicked.into_panic());
                }
                None
            }
            () = tick(ticks.as_mut()) => scheduled(&reconciler).await,
        };
        if let Some(run) = run {
            let (reconciler, shutdown) = (reconciler.clone(), shutdown.clone());
            runs.spawn(async move {
                let progress = watch::Sender::default();
                if let Err(error) = reconciler.carry_out(run, progress, &shutdown).await {
                    tracing::warn!(
                        error = %chain(&error),
                        "end of a run not recorded; the next run marks it failed"
                    );
                }
            });
        }
    }
    // A run that has started records how it ended.
    while runs.join_next().await.is_some() {}
}

async fn tick(ticks: Option<&mut Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

async fn scheduled(reconciler: &Reconciler) -> Option<Run> {
    match reconciler.begin(StartedBy::Schedule, false).await {
        Ok(RunStart::Started(run)) => Some(run),
        Ok(RunStart::AlreadyRunning { id }) => {
            metrics::counter!("orderd_reconciliation_skipped_total").increment(1);
            tracing::info!(run.id = id, "run skipped: another one is running");
            None
        }
        Err(error) => {
            tracing::warn!(error = %chain(&error), "run not started; the next one is on schedule");
            None
        }
    }
}
