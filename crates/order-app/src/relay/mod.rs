//! From the database to the stream: publishes what happened to orders.
//!
//! Delivery is at least once, under the same id each time, and the first publications of an order
//! are in the order of its versions: an event is sent after the ack of the one before, and leaves
//! the outbox after its own ack. One instance publishes at a time, the holder of a lease; an
//! instance that lost it can repeat ids, but writes nothing. No lock is held while the relay waits
//! for the broker.
//!
//! An event that can't be published is set aside with the later ones of its order, and tried again.

mod batch;
mod event;
mod notes;
mod publish;
mod republish;
mod step;
mod subjects;
mod trials;

use std::time::Duration;

use order_store::{AsidePlace, Lease, OutboxPage, Store};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::{Cause, Health};
use crate::nats::Topology;
use crate::pause::{Backoff, pause};
use crate::random_id::random_id;
use crate::telemetry::chain;
use publish::Publisher;
use subjects::Subjects;
use trials::Trials;

pub use notes::describe_metrics;
pub use publish::Fault;
pub use republish::{Ending, RepublishError, Republishing, republish};

/// The name of the lease.
pub const LEASE: &str = "outbox";

/// After this, another instance takes over the lease of a dead holder.
const LEASE_TTL: Duration = Duration::from_secs(10);

/// A live holder renews its lease this often, so that a slow answer doesn't cost it the lease.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// How long the holder rests when there is nothing to publish.
const IDLE: Duration = Duration::from_millis(100);

/// How long it rests after a round of few events: a transaction for each small round would cost more than the
/// events.
const FEW: usize = 500;
const COALESCE: Duration = Duration::from_millis(10);

/// How long the other instances wait before they ask for the lease again.
const STANDBY: Duration = Duration::from_secs(1);

/// How often all that is set aside is tried again, whatever the reason.
const RETRY_EVERY: Duration = Duration::from_secs(30);

/// How long releasing the lease may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Publishes order events.
#[derive(Debug)]
pub struct Relay {
    topology: Topology,
    store: Store,
    lease: Lease,
    health: Health,
    /// When this instance last acquired or renewed the lease.
    held_since: Option<Instant>,
    subjects: Subjects,
    trials: Trials,
    /// The page that was read ahead: how far the pass through the outbox is.
    page: Option<OutboxPage>,
    /// Whether anything may be set aside.
    any_aside: bool,
    /// How far the walk through the events that are set aside is, if one is running.
    walk: Option<AsidePlace>,
    next_walk: Instant,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This many events were published and left the outbox; there may be more.
    Published(usize),
    /// There was nothing to publish.
    Idle,
    /// Another instance holds the lease.
    Standby,
    /// The lease was lost while publishing: nothing was written, the next step begins again.
    LeaseLost,
}

/// A step that failed. What was acknowledged before has left the outbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error("the outbox could not be read or written")]
    Store(#[from] order_store::Error),
    /// The broker failed.
    #[error("order events were not published")]
    Publish(#[from] Fault),
}

impl Relay {
    /// Creates a relay with an id of its own.
    pub fn new(topology: Topology, store: Store) -> Self {
        let lease = Lease {
            name: LEASE,
            holder: random_id(),
            ttl: LEASE_TTL,
        };
        Self {
            topology,
            store,
            lease,
            health: Health::default(),
            held_since: None,
            subjects: Subjects::default(),
            trials: Trials::default(),
            page: None,
            any_aside: false,
            walk: None,
            next_walk: Instant::now(),
        }
    }

    /// Reports to this health what can't be published.
    #[must_use]
    pub fn reporting_to(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// Runs until `stop`, then releases the lease.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut backoff = Backoff::new();
        while !stop.is_cancelled() {
            let rest = match self.step(&stop).await {
                Ok(done) => {
                    backoff.reset();
                    match done {
                        Step::Published(0) | Step::LeaseLost => Duration::ZERO,
                        Step::Published(few) if few < FEW => COALESCE,
                        Step::Published(_) => Duration::ZERO,
                        Step::Idle => IDLE,
                        Step::Standby => STANDBY,
                    }
                }
                Err(error) => {
                    tracing::error!(
                        error = %chain(&error),
                        "order events not published; they stay in the outbox and are tried \
                         again"
                    );
                    backoff.next()
                }
            };
            pause(&stop, rest).await;
        }
        self.release().await;
    }

    /// Publishes a page of the outbox, if this instance holds the lease, and records what became of
    /// it. Also tries some of the events again that are set aside.
    ///
    /// # Errors
    /// If the database or the broker failed; events that were acknowledged have left the outbox nevertheless.
    pub async fn step(&mut self, stop: &CancellationToken) -> Result<Step, Error> {
        if !self.keep_lease().await? {
            self.health.clear_cause(Cause::EventsBlocked);
            return Ok(Step::Standby);
        }
        let done = self.held_step(stop).await;
        if done.is_err() {
            self.page = None;
        }
        if let Ok(Step::LeaseLost) = done {
            tracing::warn!("relay lease lost while publishing; nothing was written");
            self.held_since = None;
        }
        self.report();
        done
    }

    /// Releases the lease, so that another instance needn't wait until it expires.
    pub async fn release(&mut self) {
        self.health.clear_cause(Cause::EventsBlocked);
        if self.held_since.take().is_none() {
            return;
        }
        let released = self.store.release_lease(&self.lease);
        match tokio::time::timeout(RELEASE_TIMEOUT, released).await {
            Ok(Ok(())) => tracing::info!("relay lease released"),
            Ok(Err(error)) => {
                tracing::warn!(
                    error = %chain(&error),
                    "relay lease not released; it expires by itself"
                );
            }
            Err(_) => tracing::warn!("relay lease not released; it expires by itself"),
        }
    }

    /// Reports which kinds of events can't be published.
    fn report(&self) {
        let closed: Vec<&str> = self.subjects.closed().collect();
        if closed.is_empty() {
            self.health.clear_cause(Cause::EventsBlocked);
        } else {
            let why = format!(
                "the broker doesn't accept order events: {}",
                closed.join(", ")
            );
            self.health.set_cause(Cause::EventsBlocked, why);
        }
    }

    fn publisher(&self) -> Publisher {
        Publisher {
            store: self.store.clone(),
            lease: self.lease.clone(),
            context: self.topology.context(),
            refusals: self.topology.refusals().clone(),
            stream: self.topology.outbound_stream().to_owned(),
            prefix: self.topology.outbound_prefix().to_owned(),
        }
    }

    async fn keep_lease(&mut self) -> Result<bool, Error> {
        if self
            .held_since
            .is_some_and(|since| since.elapsed() < RENEW_EVERY)
        {
            return Ok(true);
        }
        let asked_at = Instant::now();
        let before = self.held_since.take();
        if !self.store.take_lease(&self.lease).await? {
            return Ok(false);
        }
        self.store.keep_older_relays_away().await?;
        if before.is_none() {
            self.begin_term().await?;
        }
        self.held_since = Some(asked_at);
        Ok(true)
    }

    /// Resets what another holder may have changed since.
    async fn begin_term(&mut self) -> Result<(), Error> {
        tracing::info!(
            holder = %self.lease.holder,
            "relay lease acquired: this instance publishes order events"
        );
        self.page = None;
        self.subjects.clear();
        self.trials = Trials::default();
        self.any_aside = self.store.is_any_set_aside().await?;
        self.walk = None;
        self.next_walk = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
