//! Publishes again from a point in time, for a stream that lost events it had acknowledged.

use std::time::Duration;

use order_store::{Republished, Store};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Error, LEASE, Relay, Step};
use crate::telemetry::chain;

/// How long a running service may take to acquire the lease again; longer than `STANDBY`.
const SERVICE_WAIT: Duration = Duration::from_secs(4);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long publishing is tried without any progress.
const PROGRESS_WAIT: Duration = Duration::from_secs(30);

/// How a republishing ended.
#[derive(Debug)]
pub struct Republishing {
    /// What is published again.
    pub again: Republished,
    /// By whom it is published.
    pub ending: Ending,
    /// How many events are left out, since they can't be read or are too large.
    pub left_out: i64,
}

/// By whom the events are published.
#[derive(Debug)]
pub enum Ending {
    /// There is nothing to publish.
    NothingToDo,
    /// By a running service.
    Service,
    /// By this call: this many events.
    Here(usize),
    /// Not now: the relay is off.
    RelayOff,
    /// By this call, which failed after this many events.
    Failed(usize, Error),
}

/// Puts every event since a time back into the outbox, before those that wait there. Publishes them if no
/// service does. Meanwhile, the lease is taken from its holder: its events in flight may have been
/// acknowledged by a stream that lost them since, so they must not leave the outbox, and it must not publish
/// later events first. A live service acquires the lease again, which distinguishes it from a dead one.
///
/// # Errors
/// If the database failed, or another call took the lease; repeat the call.
pub async fn republish(
    mut relay: Relay,
    store: &Store,
    since: OffsetDateTime,
    publish: bool,
) -> Result<Republishing, RepublishError> {
    store.seize_lease(&relay.lease).await?;
    let again = store.republish_since(&relay.lease, since).await;
    store.release_lease(&relay.lease).await?;
    let again = again?.ok_or(RepublishError::LeaseLost)?;
    // Events that already waited are published together with these.
    let waiting = store.outbox_gauges().await?.unpublished;
    let ending = if waiting == 0 {
        Ending::NothingToDo
    } else if service_holds(store).await? {
        Ending::Service
    } else if publish {
        let ending = publish_all(&mut relay).await;
        relay.release().await;
        ending
    } else {
        Ending::RelayOff
    };
    let left_out = store.outbox_gauges().await?.set_aside;
    Ok(Republishing {
        again,
        ending,
        left_out,
    })
}

/// Why nothing, or not everything, is published again.
#[derive(Debug, thiserror::Error)]
pub enum RepublishError {
    /// The database failed.
    #[error("the outbox could not be written")]
    Store(#[from] order_store::Error),
    /// Another call took the lease meanwhile.
    #[error(
        "another `orderd republish` is running, or this one was delayed for too long; repeat it"
    )]
    LeaseLost,
}

async fn service_holds(store: &Store) -> Result<bool, order_store::Error> {
    let deadline = Instant::now() + SERVICE_WAIT;
    while Instant::now() < deadline {
        if store.lease_holder(LEASE).await?.is_some() {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(false)
}

async fn publish_all(relay: &mut Relay) -> Ending {
    // It is stopped by the end of the process.
    let stop = CancellationToken::new();
    let mut published = 0;
    let mut progress = Instant::now();
    loop {
        match relay.step(&stop).await {
            Ok(Step::Published(count)) => {
                published += count;
                progress = Instant::now();
            }
            Ok(Step::Idle) => return Ending::Here(published),
            // A service has started meanwhile.
            Ok(Step::Standby) => return Ending::Service,
            Ok(Step::LeaseLost) => {}
            Err(error) if progress.elapsed() < PROGRESS_WAIT => {
                tracing::warn!(
                    error = %chain(&error),
                    "order events not published; they are tried again"
                );
                relay.topology.renew_connection().await;
                tokio::time::sleep(LOOK_EVERY * 5).await;
            }
            Err(error) => return Ending::Failed(published, error),
        }
    }
}
