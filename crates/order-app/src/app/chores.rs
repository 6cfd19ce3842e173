//! Periodic work: settling stranded payments, deleting old rows.

use std::time::Duration;

use anyhow::Result;
use order_store::Store;
use tokio_util::sync::CancellationToken;

use crate::pause::pause;
use crate::reconcile::{STEP, STEPS_MAX, Walk};
use crate::telemetry::chain;

/// How often stranded payments are looked for: those that a dead process left waiting.
const SETTLE_EVERY: Duration = Duration::from_mins(1);

/// How often old rows are deleted.
const PURGE_EVERY: Duration = Duration::from_mins(5);

/// The most rows of a kind that are deleted at a time.
const PURGE_MAX: u64 = 20_000;

/// How often the metrics recorder drops what it no longer needs.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Settles payments that a process left waiting when it died between a commit and the settling
/// after it.
pub(super) async fn settle(store: Store, stop: CancellationToken) -> Result<()> {
    let walk = Walk::default();
    while !stop.is_cancelled() {
        if let Err(error) = settle_some(&store, &walk, &stop).await {
            tracing::warn!(
                error = %chain(&error),
                "stranded payments not settled; they are tried again within a minute"
            );
        }
        pause(&stop, SETTLE_EVERY).await;
    }
    Ok(())
}

/// Settles a bounded number of waiting payments, starting where it stopped the last time.
async fn settle_some(
    store: &Store,
    walk: &Walk,
    stop: &CancellationToken,
) -> Result<(), order_store::Error> {
    let mut after = walk.take();
    for _ in 0..STEPS_MAX {
        let range = store.waiting_range(after, STEP).await?;
        after = range.until.clone();
        // If it fails with these, the next call continues behind them.
        walk.put(after.clone());
        let settled = store.settle_stranded(range, false).await?;
        if settled > 0 {
            tracing::info!(settled, "stranded payments settled");
        }
        if after.is_none() || stop.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Deletes old rows, whether or not reconciliation runs.
pub(super) async fn purge(store: Store, keep: Duration, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        match store.purge(keep, PURGE_MAX).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "old rows deleted"),
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "old rows not deleted; they are tried again in five minutes"
                );
            }
        }
        pause(&stop, PURGE_EVERY).await;
    }
    Ok(())
}

pub(super) async fn upkeep(
    metrics: metrics_exporter_prometheus::PrometheusHandle,
    stop: CancellationToken,
) -> Result<()> {
    while !stop.is_cancelled() {
        metrics.run_upkeep();
        pause(&stop, UPKEEP_EVERY).await;
    }
    Ok(())
}
