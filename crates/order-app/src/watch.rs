//! Callers that wait for orders to move.
//!
//! The store notifies this module of every step that this process commits; what other processes do
//! is polled with one query for all watched orders. A waiter holds a place here and no database
//! connection. A notification is a hint: waiters read the order again.
//!
//! Enter at [`Watch::enter`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use order_fsm::OrderId;
use order_store::{Listener, Moved, Store};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::pause::pause;
use crate::telemetry::chain;

/// The most waiters; well below the limit of connections, so that other requests get through.
const WAITERS_MAX: usize = 512;

/// How often the database is asked about the watched orders.
const POLL_EVERY: Duration = Duration::from_millis(500);

const WAITING: &str = "orderd_http_waiting";

/// Describes the metrics, and shows them from the start.
pub(crate) fn describe_metrics() {
    metrics::describe_gauge!(WAITING, "Callers that wait for an order to move");
    metrics::gauge!(WAITING).set(0);
}

/// The watched orders. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    waiting: Mutex<Waiting>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Waiting {
    orders: HashMap<String, Watched>,
    waiters: usize,
}

#[derive(Debug)]
struct Watched {
    /// The highest version that was reported; 0 if none was.
    version: watch::Sender<i64>,
    waiters: usize,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The order has another version.
    Moved,
    /// The time is up.
    TimeOver,
    /// The service stops.
    Stopping,
}

impl Watch {
    /// A watch that ends every wait at `stop`.
    pub fn until(stop: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            waiting: Mutex::default(),
            stop,
        }))
    }

    /// A place to wait for an order, unless all are taken. No move after this call is missed.
    pub fn enter(&self, order_id: &OrderId) -> Option<Waiter> {
        let mut waiting = self.waiting();
        if waiting.waiters >= WAITERS_MAX {
            return None;
        }
        waiting.waiters += 1;
        let watched = waiting
            .orders
            .entry(order_id.to_string())
            .or_insert_with(|| Watched {
                version: watch::Sender::new(0),
                waiters: 0,
            });
        watched.waiters += 1;
        metrics::gauge!(WAITING).increment(1);
        Some(Waiter {
            version: watched.version.subscribe(),
            order_id: order_id.to_string(),
            watch: self.clone(),
        })
    }

    /// Polls what other processes did, until `stop`.
    pub async fn run(self, store: Store, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.poll(&store).await {
                // Readiness reports the fault; waiters meet it when they read the order.
                tracing::debug!(
                    error = %chain(&error),
                    "watched orders not polled; their callers wait for the next poll"
                );
            }
            pause(&stop, POLL_EVERY).await;
        }
    }

    /// Polls once.
    pub(crate) async fn poll(&self, store: &Store) -> Result<(), order_store::Error> {
        let order_ids: Vec<String> = self.waiting().orders.keys().cloned().collect();
        if order_ids.is_empty() {
            return Ok(());
        }
        let versions = store.order_versions(order_ids).await?;
        let waiting = self.waiting();
        for (order_id, version) in &versions {
            waiting.note(order_id, *version);
        }
        Ok(())
    }

    /// How many callers wait.
    #[cfg(test)]
    pub(crate) fn waiters(&self) -> usize {
        self.waiting().waiters
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = &self.0.waiting;
        lock(waiting)
    }
}

impl Listener for Watch {
    fn moved(&self, orders: &[Moved]) {
        let waiting = self.waiting();
        if waiting.orders.is_empty() {
            return;
        }
        for moved in orders {
            waiting.note(&moved.order_id, moved.version);
        }
    }
}

impl Waiting {
    fn note(&self, order_id: &str, version: i64) {
        let Some(watched) = self.orders.get(order_id) else {
            return;
        };
        // Notifications can arrive out of order.
        watched.version.send_if_modified(|highest| {
            let higher = version > *highest;
            *highest = version.max(*highest);
            higher
        });
    }
}

/// A place to wait; dropping it frees the place.
#[derive(Debug)]
pub struct Waiter {
    version: watch::Receiver<i64>,
    order_id: String,
    watch: Watch,
}

impl Waiter {
    /// Waits for a version that is `wanted`, but not beyond `end`.
    pub async fn wait(&mut self, end: Instant, mut wanted: impl FnMut(i64) -> bool) -> Ended {
        let moved = self.version.wait_for(|version| wanted(*version));
        tokio::select! {
            biased;
            () = self.watch.0.stop.cancelled() => Ended::Stopping,
            moved = tokio::time::timeout_at(end, moved) => match moved {
                Ok(Ok(_)) => Ended::Moved,
                // The sender lives as long as this place does.
                Ok(Err(_)) | Err(_) => Ended::TimeOver,
            },
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.watch.waiting();
        waiting.waiters -= 1;
        metrics::gauge!(WAITING).decrement(1);
        if let Some(watched) = waiting.orders.get_mut(&self.order_id) {
            watched.waiters -= 1;
            if watched.waiters == 0 {
                waiting.orders.remove(&self.order_id);
            }
        }
    }
}
