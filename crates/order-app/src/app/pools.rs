//! Metrics of the connections to the database.
//!
//! They have a loop of their own: a loop that asks the database would be waiting for it just when these
//! numbers matter.

use std::time::Duration;

use anyhow::Result;
use metrics::{counter, describe_counter, describe_gauge, gauge};
use order_store::Store;
use tokio_util::sync::CancellationToken;

use crate::pause::pause;

const LOOK_EVERY: Duration = Duration::from_secs(1);

const CONNECTIONS: &str = "orderd_database_connections";
const CONNECTIONS_MAX: &str = "orderd_database_connections_max";
const TIMEOUTS: &str = "orderd_database_pool_timeouts_total";

pub(super) fn describe_metrics() {
    describe_gauge!(CONNECTIONS, "Connections to the database by pool and state");
    describe_gauge!(CONNECTIONS_MAX, "The most connections of each pool");
    describe_counter!(
        TIMEOUTS,
        "Calls that failed because no connection was free in time"
    );
}

/// Sets the gauges every second until `stop`.
pub(super) async fn measure(ingest: Store, api: Store, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        set_gauges("ingest", &ingest);
        set_gauges("api", &api);
        pause(&stop, LOOK_EVERY).await;
    }
    Ok(())
}

fn set_gauges(name: &'static str, store: &Store) {
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
