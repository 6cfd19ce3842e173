//! How the connections to the database are doing, for the metrics.
//!
//! A loop of its own: the one that asks the database waits when these numbers matter most.

use std::time::Duration;

use anyhow::Result;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use order_store::Store;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_secs(1);

const CONNECTIONS: &str = "orderd_database_connections";
const CONNECTIONS_MAX: &str = "orderd_database_connections_max";
const TIMEOUTS: &str = "orderd_database_pool_timeouts_total";

pub(super) fn describe_metrics() {
    describe_gauge!(CONNECTIONS, "Connections to the database by pool and state");
    describe_gauge!(CONNECTIONS_MAX, "Connections at most by pool");
    describe_counter!(
        TIMEOUTS,
        "Calls that were given up because no connection was to be had in time"
    );
}

/// Looks until `stop`.
pub(super) async fn watch(ingest: Store, api: Store, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        look("ingest", &ingest);
        look("api", &api);
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

fn look(name: &'static str, store: &Store) {
    for pool in store.pools() {
        let name = if pool.is_shared_writer {
            "writer"
        } else {
            name
        };
        gauge!(CONNECTIONS, "pool" => name, "state" => "in_use").set(pool.in_use);
        gauge!(CONNECTIONS, "pool" => name, "state" => "idle").set(pool.idle);
        gauge!(CONNECTIONS_MAX, "pool" => name).set(pool.max);
    }
    counter!(TIMEOUTS, "pool" => name).absolute(store.acquire_timeouts());
}
