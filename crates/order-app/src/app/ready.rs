//! Waits at the start until the database, and then each stream, can be used.

use std::time::Duration;

use anyhow::{Context as _, Result};
use order_store::Store;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::ingest::Ingest;
use crate::nats::{Topology, TopologyError};
use crate::pause::pause;
use crate::relay::Relay;
use crate::telemetry::chain;

/// How long the service tries to reach the database at the start.
const DATABASE_START: Duration = Duration::from_secs(30);

/// The pause between two attempts.
const AGAIN: Duration = Duration::from_millis(500);

/// Waits for the database, then brings its schema up to date or checks it.
pub(super) async fn prepare_database(
    store: &Store,
    migrate: bool,
    shutdown: &CancellationToken,
) -> Result<()> {
    let deadline = Instant::now() + DATABASE_START;
    loop {
        // A migration may wait for long. One that is cut off is rolled back as a whole.
        let prepared = tokio::select! {
            biased;
            prepared = store.prepare(migrate) => prepared,
            () = shutdown.cancelled() => return Ok(()),
        };
        match prepared {
            Ok(0) => return Ok(()),
            Ok(applied) => {
                tracing::info!(applied, "migrations applied");
                return Ok(());
            }
            Err(error) if error.is_transient() && Instant::now() < deadline => {
                tracing::warn!(
                    error = %chain(&error),
                    "database not reachable yet; it is tried again"
                );
            }
            Err(error) => return Err(error).context("the database cannot be used"),
        }
        if !pause(shutdown, AGAIN).await {
            return Ok(());
        }
    }
}

/// Waits until the inbound stream can be used, then consumes from it.
pub(super) async fn ingest(
    topology: Topology,
    store: Store,
    health: Health,
    stop: CancellationToken,
) -> Result<()> {
    while !is_fit(topology.ensure().await.map(drop))? {
        if !pause(&stop, AGAIN).await {
            return Ok(());
        }
    }
    Ingest::new(topology, store, health).run(stop).await;
    Ok(())
}

/// Waits until the outbound stream can be used, then publishes to it.
pub(super) async fn relay(
    topology: Topology,
    relay: Option<Relay>,
    stop: CancellationToken,
) -> Result<()> {
    while !is_fit(topology.ensure_outbound().await)? {
        if !pause(&stop, AGAIN).await {
            return Ok(());
        }
    }
    if let Some(relay) = relay {
        relay.run(stop).await;
    } else {
        tracing::warn!(
            "ORDERD_RELAY is off: order events are kept in the outbox and not published"
        );
        stop.cancelled().await;
    }
    Ok(())
}

/// Whether the broker is ready; an error if waiting won't help.
fn is_fit(asked: std::result::Result<(), TopologyError>) -> Result<bool> {
    match asked {
        Ok(()) => Ok(true),
        Err(error) if error.is_unfit() => Err(error).context("the broker cannot be used"),
        Err(error) => {
            tracing::warn!(
                error = %chain(&error),
                "broker not ready; it must answer and have JetStream enabled, and is tried \
                 again"
            );
            Ok(false)
        }
    }
}
