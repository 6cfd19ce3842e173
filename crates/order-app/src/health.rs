//! What the probes say: kept up to date by those who know, read by HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The state of what the service depends on. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    database: AtomicBool,
    broker: AtomicBool,
    draining: AtomicBool,
}

impl Health {
    /// Whether the database answers and its schema is current.
    pub fn database_up(&self) -> bool {
        self.0.database.load(Ordering::Relaxed)
    }

    /// Whether the broker is connected, streams and consumer in place.
    pub fn broker_up(&self) -> bool {
        self.0.broker.load(Ordering::Relaxed)
    }

    /// Whether the service is stopping.
    pub fn draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Whether traffic is welcome.
    pub fn ready(&self) -> bool {
        self.database_up() && self.broker_up() && !self.draining()
    }

    /// Says whether the database is up.
    pub fn set_database(&self, up: bool) {
        self.0.database.store(up, Ordering::Relaxed);
    }

    /// Says whether the broker is up.
    pub fn set_broker(&self, up: bool) {
        self.0.broker.store(up, Ordering::Relaxed);
    }

    /// Says that the service is stopping; there is no way back.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }
}
