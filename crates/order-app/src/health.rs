//! What the probes answer: kept up to date by the parts that know, read by HTTP.
//!
//! Two checks say whether database and broker answer. Besides them, each part can set a cause of
//! its own why the service isn't ready, and clears it itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::lock;

/// The state of what the service depends on. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<State>);

#[derive(Debug, Default)]
struct State {
    database: AtomicBool,
    broker: AtomicBool,
    draining: AtomicBool,
    causes: Mutex<BTreeMap<Cause, String>>,
}

/// Why the service isn't ready. Each cause has one part that sets and clears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The database doesn't answer, or its schema isn't current.
    DatabaseDown,
    /// The broker doesn't answer, or streams and consumer aren't in place.
    BrokerDown,
    /// The service is stopping.
    Draining,
    /// The broker doesn't permit something that is needed.
    BrokerPermission,
    /// A stream delivers or accepts no messages.
    StreamUnusable,
    /// The consumer is there, and messages can't be pulled from it.
    ConsumerUnusable,
    /// A stream captures the questions to the payment service and answers them with its acks.
    PaymentQueryCaptured,
    /// Ingest holds messages back that can't be recorded.
    HeldMessages,
    /// Some rows that were read can't be understood.
    UnreadableRows,
    /// Ingest can't record anything.
    RecordingStalled,
    /// The broker doesn't take order events of some kinds.
    EventsBlocked,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 11] = [
        Self::DatabaseDown,
        Self::BrokerDown,
        Self::Draining,
        Self::BrokerPermission,
        Self::StreamUnusable,
        Self::ConsumerUnusable,
        Self::PaymentQueryCaptured,
        Self::HeldMessages,
        Self::UnreadableRows,
        Self::RecordingStalled,
        Self::EventsBlocked,
    ];

    /// The name in the probes' answers and in the metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DatabaseDown => "database-down",
            Self::BrokerDown => "broker-down",
            Self::Draining => "draining",
            Self::BrokerPermission => "broker-permission",
            Self::StreamUnusable => "stream-unusable",
            Self::ConsumerUnusable => "consumer-unusable",
            Self::PaymentQueryCaptured => "payment-query-captured",
            Self::HeldMessages => "held-messages",
            Self::UnreadableRows => "unreadable-rows",
            Self::RecordingStalled => "recording-stalled",
            Self::EventsBlocked => "events-blocked",
        }
    }
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

    /// Whether the service is ready for traffic.
    pub fn ready(&self) -> bool {
        self.database_up() && self.broker_up() && !self.draining() && self.causes().is_empty()
    }

    /// Why the service isn't ready: each cause once, with a sentence for the operator.
    pub fn not_ready_because(&self) -> Vec<(Cause, String)> {
        let checks = [
            (
                Cause::DatabaseDown,
                !self.database_up(),
                "the database doesn't answer or its schema isn't current",
            ),
            (
                Cause::BrokerDown,
                !self.broker_up(),
                "the broker doesn't answer, or streams or consumer aren't in place",
            ),
            (Cause::Draining, self.draining(), "the service is stopping"),
        ];
        let mut causes = self.causes().clone();
        for (cause, is_so, why) in checks {
            if is_so {
                causes.entry(cause).or_insert_with(|| why.to_owned());
            }
        }
        causes.into_iter().collect()
    }

    /// Sets whether the database is up.
    pub fn set_database(&self, up: bool) {
        self.0.database.store(up, Ordering::Relaxed);
    }

    /// Sets whether the broker is up.
    pub fn set_broker(&self, up: bool) {
        self.0.broker.store(up, Ordering::Relaxed);
    }

    /// The service is stopping; this can't be undone.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// Makes the service not ready until the same part clears the cause. A second call replaces the
    /// sentence of the first.
    ///
    /// `why` is one sentence for the operator. `/readyz` needs no token, so it names no payment, no
    /// order, no address and no secret.
    pub fn set_cause(&self, cause: Cause, why: impl Into<String>) {
        self.causes().insert(cause, why.into());
    }

    /// Clears a cause.
    pub fn clear_cause(&self, cause: Cause) {
        self.causes().remove(&cause);
    }

    /// Sets a cause if there is a reason, and clears it otherwise.
    pub fn state_cause(&self, cause: Cause, why: Option<String>) {
        match why {
            Some(why) => self.set_cause(cause, why),
            None => self.clear_cause(cause),
        }
    }

    fn causes(&self) -> MutexGuard<'_, BTreeMap<Cause, String>> {
        lock(&self.0.causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_keeps_the_service_from_being_ready_until_it_is_cleared() {
        let health = Health::default();
        health.set_database(true);
        health.set_broker(true);
        for cause in Cause::ALL {
            assert!(health.ready(), "{cause:?}");
            health.set_cause(cause, "first");
            health.set_cause(cause, "second");
            assert!(!health.ready(), "{cause:?}");
            assert_eq!(
                health.not_ready_because(),
                [(cause, "second".to_owned())],
                "{cause:?}"
            );
            health.clear_cause(cause);
        }
        assert!(health.ready());
        assert_eq!(health.not_ready_because(), []);
    }

    #[test]
    fn the_checks_are_causes_too() {
        let health = Health::default();
        health.drain();
        let causes: Vec<Cause> = health
            .not_ready_because()
            .into_iter()
            .map(|(cause, _)| cause)
            .collect();
        assert_eq!(
            causes,
            [Cause::DatabaseDown, Cause::BrokerDown, Cause::Draining]
        );
        assert!(!health.ready());
    }
}
