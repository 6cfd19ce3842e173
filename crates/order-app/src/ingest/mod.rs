//! From the stream to the database: pull, decode, record, ack. A message is acked when its outcome
//! is a committed row, and at no other time. A fault of the database or the broker stops the
//! pulling until it is over; it never makes a dead letter and never uses up a delivery.

mod commit;
mod hold;
mod message;
mod outcome;
mod progress;
mod pull;
mod rescue;
mod size;
mod stall;
mod trail;

use std::time::Duration;

use async_nats::jetstream::AckKind;
use order_store::{NewDeadLetter, PaymentFact, Store, crash};
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::nats::{Reading, Topology};
use crate::pause::pause;
use crate::payment_event::decode;
use crate::telemetry::chain;
use hold::Held;
use message::Incoming;
use size::BatchSize;
use stall::Stalls;

pub use outcome::{DEAD_LETTER, describe_metrics};

/// How many batches an instance works on: while one is in the database, the other is at the broker.
const WORKERS: usize = 2;

/// How long sending acks may take: a lost ack costs one `DUPLICATE`.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the last acks may take to reach the broker when the service stops.
const LAST_ACKS_TIMEOUT: Duration = Duration::from_secs(1);

/// Consumes payment events.
#[derive(Debug, Clone)]
pub struct Ingest {
    topology: Topology,
    store: Store,
    held: Held,
    size: BatchSize,
    stalls: Stalls,
}

/// A message and its decoded content.
#[derive(Debug, Clone)]
struct Entry {
    message: Incoming,
    item: Item,
}

/// The decoded content of a message.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// A payment.
    Fact(PaymentFact),
    /// A dead letter: the message can't be understood.
    Letter(NewDeadLetter),
}

impl Ingest {
    /// Creates an ingest.
    pub fn new(topology: Topology, store: Store, health: Health) -> Self {
        Self {
            topology,
            store,
            held: Held::new(health.clone()),
            size: BatchSize::default(),
            stalls: Stalls::new(health),
        }
    }

    /// Runs until `shutdown`, and finishes the batches in hand.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..WORKERS {
            workers.spawn(self.clone().work(shutdown.clone()));
        }
        workers.spawn(self.clone().release_held(shutdown.clone()));
        while let Some(done) = workers.join_next().await {
            if let Err(failed) = done {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
        self.see_acks_arrive().await;
    }

    async fn work(self, shutdown: CancellationToken) {
        let mut reading: Option<Reading> = None;
        while !shutdown.is_cancelled() {
            // Reading starts again after every fault: connection, stream or consumer may be gone or
            // new.
            let ready = match reading.take() {
                Some(ready) => ready,
                None => match self.begin_reading(&shutdown).await {
                    Some(ready) => ready,
                    None => continue,
                },
            };
            let pulled = tokio::select! {
                biased;
                pulled = pull::pull(&ready, self.size.max(), &shutdown) => pulled,
                () = ready.broken() => Err(pull::PullError::Broken),
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
                    if error.is_about_the_consumer() {
                        self.topology.pulls().failed(error.to_string());
                    }
                    tracing::warn!(
                        error = %chain(&error),
                        "pull failed; reading starts again over a new connection"
                    );
                    pause(&shutdown, Duration::from_millis(200)).await;
                    if let Err(error) = self.rescue(&shutdown).await {
                        tracing::warn!(
                            error = %chain(&error),
                            "delivered messages not read from the stream; they are redelivered"
                        );
                    }
                }
            }
        }
    }

    async fn begin_reading(&self, shutdown: &CancellationToken) -> Option<Reading> {
        let begun = tokio::select! {
            begun = self.topology.begin_reading() => begun,
            () = shutdown.cancelled() => return None,
        };
        match begun {
            Ok(ready) => Some(ready),
            Err(error) => {
                self.topology.pulls().failed(chain(&error));
                tracing::warn!(
                    error = %chain(&error),
                    "consumer not ready to be read from; it is tried again"
                );
                pause(shutdown, Duration::from_secs(1)).await;
                None
            }
        }
    }

    /// Records a batch of messages and acks them, or holds them back. On shutdown during a fault
    /// they are returned, so that another instance gets them at once instead of after `ack_wait`.
    async fn step(&self, messages: Vec<Incoming>, shutdown: &CancellationToken) {
        if messages.is_empty() {
            return;
        }
        let entries = messages.into_iter().map(|message| Entry {
            item: self.read(&message),
            message,
        });
        let entries = entries.collect();
        crash::point("ingest:fetched");
        let left = self.commit(entries, false, shutdown).await;
        if !left.is_empty() {
            tracing::warn!(
                messages = left.len(),
                "messages returned to the broker: they were not recorded before the service stopped"
            );
            let acks: Vec<String> = left.into_iter().map(|left| left.message.ack_to).collect();
            self.notify(&acks, AckKind::Nak(None)).await;
        }
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

    /// Sends acks. They are hints: when one is lost, its message is redelivered and is a duplicate.
    async fn ack(&self, entries: &[Entry]) {
        let client = self.topology.client();
        let all = async {
            for (number, Entry { message, .. }) in entries.iter().enumerate() {
                if number > 0 {
                    crash::point("ingest:between-acks");
                }
                if let Err(error) = client
                    .publish(message.ack_to.clone(), AckKind::Ack.into())
                    .await
                {
                    tracing::warn!(
                        error = %error,
                        "ack not sent; its message and the following ones are redelivered"
                    );
                    return;
                }
                tracing::debug!(stream.sequence = message.sequence, "message acked");
            }
        };
        if tokio::time::timeout(ACK_TIMEOUT, all).await.is_err() {
            tracing::warn!("acks not sent in time; their messages are redelivered");
        }
    }

    /// Notifies the broker about messages that aren't acked: they are in progress, or returned.
    async fn notify(&self, acks: &[String], kind: AckKind) {
        let client = self.topology.client();
        let all = async {
            for ack_to in acks {
                let sent = client.publish(ack_to.clone(), kind.into());
                if sent.await.is_err() {
                    return;
                }
            }
        };
        // If it gets lost, the message is redelivered and is a duplicate.
        let _ = tokio::time::timeout(ACK_TIMEOUT, all).await;
    }

    /// Waits until the broker has read the last acks: sending only queues them, and the end of the
    /// process would drop them. Its answer to a request that was sent after them proves it.
    async fn see_acks_arrive(&self) {
        let answered = tokio::time::timeout(LAST_ACKS_TIMEOUT, self.topology.consumer_info());
        if !matches!(answered.await, Ok(Ok(_))) {
            tracing::warn!(
                "last acks not confirmed by the broker; their messages may be redelivered"
            );
        }
    }
}
