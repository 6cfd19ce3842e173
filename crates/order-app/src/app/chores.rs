//! What is done now and then: settling, tidying up.

use std::time::Duration;

use anyhow::Result;
use order_store::Store;
use tokio_util::sync::CancellationToken;

use crate::telemetry::chain;

/// How often payments are looked for that a dead process left waiting.
const SETTLE_EVERY: Duration = Duration::from_mins(1);

/// Orders settled in one such look.
const SETTLE_MAX: u32 = 1000;

/// How often the recorder of metrics tidies up.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Settles what a process left that died between a commit and the settling after it.
pub(super) async fn settle(store: Store, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        match store.settle_stranded(SETTLE_MAX, false).await {
            Ok(0) => {}
            Ok(settled) => tracing::info!(settled, "stranded payments settled"),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "stranded payments were not settled");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(SETTLE_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

pub(super) async fn upkeep(
    metrics: metrics_exporter_prometheus::PrometheusHandle,
    stop: CancellationToken,
) -> Result<()> {
    while !stop.is_cancelled() {
        metrics.run_upkeep();
        tokio::select! {
            () = tokio::time::sleep(UPKEEP_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}
