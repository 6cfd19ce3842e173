//! Who waits for which order to move.
//!
//! Told by the store of every step that this process commits, and by a poll of what others do:
//! one question for all waiting orders, however many wait. A waiter holds a place here and no
//! connection of the database. That an order moved is a hint: waiters read it again.
//!
//! Enter at [`Watch::enter`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use order_fsm::OrderId;
use order_store::{Listener, Moved, Store};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::telemetry::chain;

/// Waiters at most, well below the connections there may be: others get through.
const WAITERS_MAX: usize = 512;

/// How often the database is asked about the orders that are waited for.
const POLL_EVERY: Duration = Duration::from_millis(500);

const WAITING: &str = "orderd_http_waiting";

/// Tells the recorder what the numbers mean.
pub(crate) fn describe_metrics() {
    metrics::describe_gauge!(WAITING, "Callers that wait for an order to move");
    metrics::gauge!(WAITING).set(0);
}

/// The orders that are waited for. Cheap to clone.
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
    /// The highest version that was told of; 0 if none was.
    version: watch::Sender<i64>,
    waiters: usize,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The order has another version.
    Moved,
    /// The time is over.
    TimeOver,
    /// The service stops.
    Stopping,
}

impl Watch {
    /// Nobody waits beyond `stop`.
    pub fn until(stop: CancellationToken) -> Self {
        Self(Arc::new(Inner {
            waiting: Mutex::default(),
            stop,
        }))
    }

    /// A place to wait for an order, unless all are taken. What moves from here on is not missed.
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

    /// Looks what other processes did, until `stop`.
    pub async fn run(self, store: Store, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.poll(&store).await {
                // The probe says so where people look; waiters are told when they ask.
                tracing::debug!(error = %chain(&error), "waiting orders were not asked about");
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_EVERY) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Looks once.
    pub(crate) async fn poll(&self, store: &Store) -> Result<(), order_store::Error> {
        let order_ids: Vec<String> = self.waiting().orders.keys().cloned().collect();
        if order_ids.is_empty() {
            return Ok(());
        }
        let versions = store.order_versions(order_ids).await?;
        let waiting = self.waiting();
        for (order_id, version) in &versions {
            waiting.tell(order_id, *version);
        }
        Ok(())
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiters(&self) -> usize {
        self.waiting().waiters
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = &self.0.waiting;
        waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Watch {
    fn moved(&self, orders: &[Moved]) {
        let waiting = self.waiting();
        if waiting.orders.is_empty() {
            return;
        }
        for moved in orders {
            waiting.tell(&moved.order_id, moved.version);
        }
    }
}

impl Waiting {
    fn tell(&self, order_id: &str, version: i64) {
        let Some(watched) = self.orders.get(order_id) else {
            return;
        };
        // Tellings overtake one another.
        watched.version.send_if_modified(|highest| {
            let higher = version > *highest;
            *highest = version.max(*highest);
            higher
        });
    }
}

/// A place to wait; given back when it is dropped.
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
