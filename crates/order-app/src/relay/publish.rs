//! A batch to the broker: many at a time, each until its ack, none twice in one call.

use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{Context, ErrorCode};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use order_store::{Lease, OutboxKey, Store};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::RENEW_EVERY;
use super::event::Outgoing;
use crate::telemetry::chain;

/// Publishes whose ack is waited for at a time.
const IN_FLIGHT_MAX: usize = 256;

/// How long an ack may take. One that came too late may have been stored: the same id goes again.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long acks are waited for when the service stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Why an event is not known to be published.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No ack in time.
    #[error("the broker did not acknowledge an event within {ACK_TIMEOUT:?}")]
    NoAck,
    /// No stream takes the subject.
    #[error("no stream takes {subject}")]
    NoStream {
        /// The subject.
        subject: String,
    },
    /// Another stream took the event.
    #[error("stream {found} took an event that is for {wanted}")]
    OtherStream {
        /// The outbound stream.
        wanted: String,
        /// The one that answered.
        found: String,
    },
    /// The broker refused it, or could not be asked.
    #[error("an event could not be published")]
    Refused(#[source] PublishError),
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Acked by the outbound stream.
    pub(super) acked: Vec<Outgoing>,
    /// Larger than the broker takes, with its words for it.
    pub(super) too_large: Vec<(OutboxKey, String)>,
    /// The first fault; the rest was not sent then.
    pub(super) fault: Option<Fault>,
}

/// Where events go, and by whose leave.
#[derive(Debug, Clone)]
pub(super) struct Publisher {
    pub(super) store: Store,
    pub(super) lease: Lease,
    pub(super) context: Context,
    pub(super) stream: String,
    pub(super) prefix: String,
}

enum Sent {
    Acked,
    TooLarge(String),
    Failed(Fault),
}

impl Publisher {
    /// Publishes a batch, and keeps the lease while it lasts. After a fault, or when the lease is
    /// lost, nothing more is sent, but acks under way are awaited.
    pub(super) async fn publish(
        &self,
        batch: Vec<Outgoing>,
        stop: &CancellationToken,
    ) -> Published {
        let mut published = Published::default();
        let mut rest = batch.into_iter();
        let mut in_flight = FuturesUnordered::new();
        let mut kept = true;
        let mut keeping = tokio::time::interval(RENEW_EVERY);
        // The first tick is at once.
        keeping.tick().await;
        let mut grace = std::pin::pin!(async {
            stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        });
        loop {
            while kept
                && published.fault.is_none()
                && !stop.is_cancelled()
                && in_flight.len() < IN_FLIGHT_MAX
            {
                let Some(outgoing) = rest.next() else { break };
                in_flight.push(self.send(outgoing));
            }
            tokio::select! {
                sent = in_flight.next() => match sent {
                    Some((outgoing, Sent::Acked)) => published.acked.push(outgoing),
                    Some((outgoing, Sent::TooLarge(why))) => {
                        published.too_large.push((outgoing.key, why));
                    }
                    Some((_, Sent::Failed(fault))) => {
                        published.fault.get_or_insert(fault);
                    }
                    None => return published,
                },
                _ = keeping.tick() => kept = self.keep().await,
                () = &mut grace => return published,
            }
        }
    }

    /// Renews the lease; whether it is still ours.
    async fn keep(&self) -> bool {
        match self.store.renew_lease(&self.lease).await {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the relay's lease could not be renewed");
                false
            }
        }
    }

    async fn send(&self, outgoing: Outgoing) -> (Outgoing, Sent) {
        let subject = format!("{}.{}", self.prefix, outgoing.token);
        let sending = async {
            let message = outgoing.message(&self.stream);
            self.context
                .send_publish(subject.clone(), message)
                .await?
                .await
        };
        let sent = match timeout(ACK_TIMEOUT, sending).await {
            Ok(Ok(ack)) if ack.stream == self.stream => Sent::Acked,
            Ok(Ok(ack)) => Sent::Failed(Fault::OtherStream {
                wanted: self.stream.clone(),
                found: ack.stream,
            }),
            Ok(Err(error)) => failed(error, subject),
            Err(_) => Sent::Failed(Fault::NoAck),
        };
        (outgoing, sent)
    }
}

fn failed(error: PublishError, subject: String) -> Sent {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Sent::TooLarge(chain(&error)),
        PublishErrorKind::StreamNotFound => Sent::Failed(Fault::NoStream { subject }),
        PublishErrorKind::TimedOut => Sent::Failed(Fault::NoAck),
        PublishErrorKind::Other if stream_refuses_size(&error) => Sent::TooLarge(chain(&error)),
        _ => Sent::Failed(Fault::Refused(error)),
    }
}

/// A stream has a limit of its own, which its ack tells of.
fn stream_refuses_size(error: &PublishError) -> bool {
    use std::error::Error as _;

    let answered = error
        .source()
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    answered.is_some_and(|error| {
        [
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM,
            ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
        ]
        .contains(&error.error_code())
    })
}
