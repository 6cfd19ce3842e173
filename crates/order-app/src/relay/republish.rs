//! Publishing again from a point in time: for a stream that lost what it had acknowledged.

use std::time::Duration;

use order_store::{Republished, Store};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Error, LEASE, Relay, Step};
use crate::telemetry::chain;

/// How long a running service may take to ask for the lease again. Longer than its standby.
const SERVICE_WAIT: Duration = Duration::from_secs(4);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long it is tried without any progress.
const PROGRESS_WAIT: Duration = Duration::from_secs(30);

/// What became of a republishing.
#[derive(Debug)]
pub struct Republishing {
    /// What was marked.
    pub marked: Republished,
    /// Who publishes it.
    pub ending: Ending,
}

/// Who publishes what was marked.
#[derive(Debug)]
pub enum Ending {
    /// Nobody has to.
    NothingToDo,
    /// A running service.
    Service,
    /// This call did; so many events.
    Here(usize),
    /// Nobody: the relay is off.
    RelayOff,
    /// This call, but it failed after so many events.
    Failed(usize, Error),
}

/// Marks everything since a time as unpublished. If no service takes it from there, publishes it.
///
/// The lease is ended first: what a service has in flight was acked before this call, perhaps by
/// a stream that has lost it since, so its marks must not count. Who lives asks for the lease
/// again, which also tells a running service from a dead one.
///
/// # Errors
/// If the database failed; repeat the call.
pub async fn republish(
    mut relay: Relay,
    store: &Store,
    since: OffsetDateTime,
    publish: bool,
) -> Result<Republishing, order_store::Error> {
    store.end_lease(LEASE).await?;
    let marked = store.republish_since(since).await?;
    // What waited before is published with what was marked.
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
    Ok(Republishing { marked, ending })
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
    // The end of the process is what stops it.
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
                tracing::warn!(error = %chain(&error), "publishing is tried again");
                tokio::time::sleep(LOOK_EVERY * 5).await;
            }
            Err(error) => return Ending::Failed(published, error),
        }
    }
}
