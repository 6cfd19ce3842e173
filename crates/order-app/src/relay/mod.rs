//! From the database to the stream: what happened to orders is told to whoever cares.
//!
//! At least once, under the same id each time, and the first tellings of an order in the order of
//! its versions: a batch holds each order once, and an event is marked after its ack and not
//! before. One instance publishes at a time, the holder of a lease; one that lost it can repeat
//! ids, but marks nothing. Nothing is locked while the broker is waited for.

mod event;
mod publish;
mod republish;

use std::time::Duration;

use metrics::counter;
use order_store::{Lease, Marked, OutboxKey, Store, crash};
use rand::RngExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hex::random_id;
use crate::nats::Topology;
use crate::telemetry::chain;
use event::Outgoing;
use publish::{Published, Publisher};

pub use publish::Fault;
pub use republish::{Ending, Republishing, republish};

/// The name of the lease.
pub const LEASE: &str = "relay";

/// A holder that is gone is followed by another after this.
const LEASE_TTL: Duration = Duration::from_secs(10);

/// A holder asks again this early, so that a slow answer doesn't cost it the lease.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// The most rows of each kind in one batch.
const BATCH_MAX: u32 = 500;

/// How long the holder rests when there is nothing to publish.
const IDLE: Duration = Duration::from_millis(100);

/// How long the others rest before they ask for the lease again.
const STANDBY: Duration = Duration::from_secs(1);

const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(3);

/// How long giving back the lease may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The way out for order events.
#[derive(Debug)]
pub struct Relay {
    topology: Topology,
    store: Store,
    lease: Lease,
    /// When the lease was last known to be ours.
    held_since: Option<Instant>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many events were published and marked, or set aside.
    Published(usize),
    /// There was nothing to publish.
    Idle,
    /// Another one holds the lease.
    Standby,
    /// The lease was lost while publishing: nothing was marked, the next step begins again.
    LeaseLost,
}

/// A step that failed. What was acked before is marked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error("the outbox could not be read or marked")]
    Store(#[from] order_store::Error),
    /// The broker failed.
    #[error("events stay unpublished")]
    Publish(#[from] Fault),
    /// There is nothing in reach but rows that this version doesn't understand.
    #[error("{0} event(s) cannot be read")]
    Unreadable(usize),
}

impl Relay {
    /// A relay that is not running yet, with an id of its own.
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
            held_since: None,
        }
    }

    /// Runs until `stop`, then gives the lease back.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut backoff = BACKOFF_MIN;
        while !stop.is_cancelled() {
            let rest = match self.step(&stop).await {
                Ok(done) => {
                    backoff = BACKOFF_MIN;
                    match done {
                        Step::Published(_) | Step::LeaseLost => Duration::ZERO,
                        Step::Idle => IDLE,
                        Step::Standby => STANDBY,
                    }
                }
                Err(error) => {
                    tracing::error!(error = %chain(&error), "order events could not be published; they are kept");
                    let rest = backoff.mul_f64(rand::rng().random_range(0.5..1.0));
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                    rest
                }
            };
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = stop.cancelled() => {}
            }
        }
        self.release().await;
    }

    /// Publishes one batch, if the lease is ours, and marks what was acked.
    ///
    /// # Errors
    /// If database or broker failed on the way; what was acked is marked all the same.
    pub async fn step(&mut self, stop: &CancellationToken) -> Result<Step, Error> {
        if !self.hold().await? {
            return Ok(Step::Standby);
        }
        let batch = self.store.unpublished(BATCH_MAX).await?;
        let unreadable = batch.unreadable.len();
        for error in &batch.unreadable {
            tracing::error!(error = %chain(error), "an event cannot be read and stays unpublished");
        }
        let events = event::events(batch);
        if events.is_empty() {
            return match unreadable {
                0 => Ok(Step::Idle),
                unreadable => Err(Error::Unreadable(unreadable)),
            };
        }
        crash::point("relay:read");
        let published = self.publisher().publish(events, stop).await;
        crash::point("relay:published");
        self.conclude(published).await
    }

    /// Gives the lease back, so that another one need not wait for its end.
    pub async fn release(&mut self) {
        if self.held_since.take().is_none() {
            return;
        }
        let released = self.store.release_lease(&self.lease);
        match tokio::time::timeout(RELEASE_TIMEOUT, released).await {
            Ok(Ok(())) => tracing::info!("the relay's lease is given back"),
            Ok(Err(error)) => {
                tracing::warn!(error = %chain(&error), "the relay's lease is left to run out");
            }
            Err(_) => tracing::warn!("the relay's lease is left to run out"),
        }
    }

    fn publisher(&self) -> Publisher {
        Publisher {
            store: self.store.clone(),
            lease: self.lease.clone(),
            context: self.topology.context(),
            stream: self.topology.outbound_stream().to_owned(),
            prefix: self.topology.outbound_prefix().to_owned(),
        }
    }

    async fn hold(&mut self) -> Result<bool, Error> {
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
        if before.is_none() {
            tracing::info!(holder = %self.lease.holder, "this instance publishes order events");
        }
        self.held_since = Some(asked_at);
        Ok(true)
    }

    /// Writes down what became of a batch.
    async fn conclude(&mut self, published: Published) -> Result<Step, Error> {
        let Published {
            acked,
            too_large,
            fault,
        } = published;
        let mut done = 0;
        if !acked.is_empty() {
            let keys = acked.iter().map(|outgoing| outgoing.key.clone()).collect();
            match self.store.mark_published(&self.lease, keys).await? {
                Marked::LeaseLost => return Ok(self.lost()),
                Marked::Marked(_) => count(&acked),
            }
            done += acked.len();
        }
        for (key, why) in too_large {
            tracing::error!(
                message.id = %key,
                why,
                "an event is too large for the broker and is set aside"
            );
            match self.set_aside(key, why).await? {
                Marked::LeaseLost => return Ok(self.lost()),
                Marked::Marked(_) => done += 1,
            }
        }
        match fault {
            None => Ok(Step::Published(done)),
            Some(fault) => {
                self.mend(&fault).await;
                Err(fault.into())
            }
        }
    }

    async fn set_aside(&self, key: OutboxKey, why: String) -> Result<Marked, order_store::Error> {
        self.store.set_aside(&self.lease, key, why).await
    }

    fn lost(&mut self) -> Step {
        tracing::warn!("the relay's lease was lost while publishing; nothing is marked");
        self.held_since = None;
        Step::LeaseLost
    }

    /// A stream that is gone is made again; one that others changed is left to them.
    async fn mend(&self, fault: &Fault) {
        match fault {
            Fault::NoStream { .. } => {}
            Fault::NoAck | Fault::OtherStream { .. } | Fault::Refused(_) => return,
        }
        tracing::error!(
            stream.name = self.topology.outbound_stream(),
            "the outbound stream is gone; what it held comes back with `orderd republish`"
        );
        if let Err(error) = self.topology.ensure_outbound().await {
            tracing::error!(error = %chain(&error), "the outbound stream cannot be used");
        }
    }
}

fn count(acked: &[Outgoing]) {
    for outgoing in acked {
        counter!("orderd_published_events_total", "event" => outgoing.event).increment(1);
    }
}

/// Describes the metrics of the relay and shows every counter from the start, at zero.
pub fn describe_metrics() {
    use metrics::{Unit, describe_counter, describe_gauge};

    describe_counter!(
        "orderd_published_events_total",
        "Order events that the broker acknowledged and that are marked as published"
    );
    describe_gauge!(
        "orderd_unpublished_events",
        "Order events that are not published yet; at most 100000 of each kind are counted"
    );
    describe_gauge!(
        "orderd_unpublished_oldest_seconds",
        Unit::Seconds,
        "How long the oldest unpublished order event has waited"
    );
    describe_gauge!(
        "orderd_set_aside_events",
        "Order events that the broker does not take; `orderd republish` tries them again"
    );
    for (event, _) in event::EVENTS {
        counter!("orderd_published_events_total", "event" => event).increment(0);
    }
}

#[cfg(test)]
mod tests;
