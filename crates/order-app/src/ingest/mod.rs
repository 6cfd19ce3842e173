//! From the stream to the database: pull, decode, record, ack.
//!
//! A message is acked when its outcome is a committed row, and at no other time. A fault of ours
//! stops the pulling until it is over; it never makes a dead letter and never burns a delivery.

mod message;
mod pull;
mod record;
mod rescue;
mod trail;

use std::time::Duration;

use async_nats::jetstream::AckKind;
use order_store::{NewDeadLetter, PaymentFact, Store, crash};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::health::Health;
use crate::nats::{Reading, Topology};
use crate::payment_event::decode;
use crate::telemetry::chain;
use message::Incoming;
use trail::Trail;

pub use record::{DEAD_LETTER, describe_metrics};

/// How many batches are in flight in one instance: while one is in the database, the other is at
/// the broker.
const WORKERS: usize = 2;

/// The most messages of one batch, and so of one transaction.
const BATCH_MAX: usize = 2000;

/// How long acks may take before they are given up: a lost ack costs one `DUPLICATE`.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// The way in for payment events.
#[derive(Debug, Clone)]
pub struct Ingest {
    topology: Topology,
    store: Store,
    health: Health,
}

/// What a message turned out to be.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A payment.
    Fact(PaymentFact),
    /// Nothing that can be understood.
    Letter(NewDeadLetter),
}

impl Ingest {
    /// An ingest that is not running yet.
    pub fn new(topology: Topology, store: Store, health: Health) -> Self {
        Self {
            topology,
            store,
            health,
        }
    }

    /// Runs until `shutdown`; batches in hand are finished.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(self.clone().work(shutdown.clone()));
        }
        while let Some(done) = workers.join_next().await {
            if let Err(failed) = done {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
    }

    async fn work(self, shutdown: CancellationToken) {
        let mut reading: Option<Reading> = None;
        while !shutdown.is_cancelled() {
            // Begun again after every fault: connection, stream or consumer may be gone or new.
            let mut ready = match reading.take() {
                Some(ready) => ready,
                None => match self.topology.begin_reading().await {
                    Ok(ready) => ready,
                    Err(error) => {
                        self.health.set_broker(false);
                        tracing::warn!(error = %chain(&error), "the broker is not ready to be read from");
                        pause(&shutdown, Duration::from_secs(1)).await;
                        continue;
                    }
                },
            };
            let consumer = ready.consumer.clone();
            let pulled = tokio::select! {
                biased;
                pulled = pull::pull(&consumer, BATCH_MAX) => pulled,
                () = ready.broken() => Err(pull::PullError::Broken),
                () = shutdown.cancelled() => return,
            };
            match pulled {
                Ok(messages) => {
                    self.step(
                        messages.into_iter().map(Incoming::from).collect(),
                        &shutdown,
                    )
                    .await;
                    reading = Some(ready);
                }
                Err(error) => {
                    tracing::warn!(error = %error, "pulling failed; reading begins again");
                    pause(&shutdown, Duration::from_millis(200)).await;
                    if let Err(error) = self.rescue(&shutdown).await {
                        tracing::warn!(error = %chain(&error), "what was delivered could not be read");
                    }
                }
            }
        }
    }

    /// Records a batch of messages, then acks them. On shutdown amid a fault nothing is acked:
    /// the broker will deliver it again.
    async fn step(&self, messages: Vec<Incoming>, shutdown: &CancellationToken) {
        if messages.is_empty() {
            return;
        }
        let items: Vec<Item> = messages.iter().map(|message| self.read(message)).collect();
        let trail = Trail::of(&items);
        crash::point("ingest:fetched");
        let Some(outcomes) = self.record(items, &messages, shutdown).await else {
            return;
        };
        let committed_at = clock::now();
        trail.committed(&messages, &outcomes);
        crash::point("ingest:before-acks");
        self.ack(&messages).await;
        crash::point("ingest:after-acks");
        record::count(&messages, &outcomes, committed_at);
    }

    fn read(&self, message: &Incoming) -> Item {
        let provider = message
            .subject
            .strip_prefix(self.topology.inbound_subject())
            .and_then(|rest| rest.strip_prefix('.'))
            .unwrap_or_default();
        match decode(provider, &message.body) {
            Ok(fact) => Item::Fact(fact),
            Err(fault) => Item::Letter(message.letter(&fault)),
        }
    }

    /// Acks are hints: what gets lost is delivered again and is a duplicate.
    async fn ack(&self, messages: &[Incoming]) {
        let client = self.topology.client();
        let all = async {
            for (number, message) in messages.iter().enumerate() {
                if number > 0 {
                    crash::point("ingest:between-acks");
                }
                if let Err(error) = client
                    .publish(message.ack_to.clone(), AckKind::Ack.into())
                    .await
                {
                    tracing::warn!(error = %error, "an ack could not be sent");
                    return;
                }
                tracing::debug!(stream.sequence = message.sequence, "a message is acked");
            }
        };
        if tokio::time::timeout(ACK_TIMEOUT, all).await.is_err() {
            tracing::warn!(
                "acks could not be sent in time; their messages will be delivered again"
            );
        }
    }

    /// Tells the broker that messages in hand are worked on.
    async fn keep_in_progress(&self, messages: &[Incoming]) {
        let client = self.topology.client();
        let all = async {
            for message in messages {
                let told = client.publish(message.ack_to.clone(), AckKind::Progress.into());
                if told.await.is_err() {
                    return;
                }
            }
        };
        // What doesn't get through is delivered again and is a duplicate.
        let _ = tokio::time::timeout(ACK_TIMEOUT, all).await;
    }
}

async fn pause(shutdown: &CancellationToken, pause: Duration) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = shutdown.cancelled() => {}
    }
}
