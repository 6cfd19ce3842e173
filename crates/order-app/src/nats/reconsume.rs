//! Consumes the inbound stream again from a point in time, for a database that lost commits whose messages
//! are acked.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, Info};
use async_nats::jetstream::context::{ConsumerInfoError, ConsumerInfoErrorKind};
use async_nats::jetstream::stream::{
    ConsumerError, LastRawMessageErrorKind, RawMessageError, Stream,
};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::consumer::consumer_config;
use super::error::TopologyError;
use super::topology::Topology;
use crate::clock;

/// How long the consumer is watched for activity. A service pulls at least every 5 s, so if there
/// is no pull for longer, no service is running.
const QUIET: Duration = Duration::from_secs(7);

/// Pulls of a dead process have expired after this.
const STALE_PULLS: Duration = Duration::from_secs(6);

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Where a consumer starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconsumed {
    /// Messages that will be delivered.
    pub messages: u64,
    /// The message it starts at, if one before the asked time was not consumed yet.
    pub earlier_sequence: Option<u64>,
}

/// Why a consumer was not set back. Nothing has changed until it is deleted.
#[derive(Debug, thiserror::Error)]
pub enum ReconsumeError {
    /// A service reads from it.
    #[error("consumer {0} is in use: stop every `orderd serve` that reads from it first")]
    InUse(String),
    /// Messages that arrive before that time would be passed over.
    #[error("the time is in the future: messages that arrive before it would be passed over")]
    Future,
    /// The stream is missing or can't be used.
    #[error("the inbound stream cannot be used")]
    Stream(#[from] TopologyError),
    /// The consumer could not be read.
    #[error("consumer {0} could not be read")]
    Read(String, #[source] ConsumerInfoError),
    /// The stream could not be read.
    #[error("the first message that is not consumed could not be read")]
    Message(#[source] RawMessageError),
    /// The consumer could not be deleted or created; `serve` creates it, reading from the first
    /// message.
    #[error("consumer {0} could not be recreated")]
    Renew(String, #[source] ConsumerError),
}

impl Topology {
    /// Recreates the consumer, so that it starts at a time, or at the first message that is not
    /// consumed yet if that is earlier. Acks that are sent to the old consumer meanwhile do no
    /// harm: an ack names a message of the stream, and is sent after its outcome was committed.
    ///
    /// # Errors
    /// If a service reads from it, or the broker failed.
    pub async fn reconsume(&self, since: OffsetDateTime) -> Result<Reconsumed, ReconsumeError> {
        if since > clock::now() {
            return Err(ReconsumeError::Future);
        }
        let name = &self.config.consumer;
        let stream = self.ensure_inbound().await?;
        let info = self.quiet(&stream).await?;
        let earlier_sequence = match &info {
            Some(info) => self.unfinished_before(&stream, info, since).await?,
            None => None,
        };
        let renew = |error| ReconsumeError::Renew(name.clone(), error);
        if info.is_some() {
            self.try_out().await.map_err(renew)?;
            stream.delete_consumer(name).await.map_err(renew)?;
        }
        let mut config = consumer_config(name, self.filter());
        config.deliver_policy = match earlier_sequence {
            Some(start_sequence) => DeliverPolicy::ByStartSequence { start_sequence },
            None => DeliverPolicy::ByStartTime { start_time: since },
        };
        let made = self.ask_for(config).await.map_err(renew)?;
        Ok(Reconsumed {
            messages: made.num_pending,
            earlier_sequence,
        })
    }

    /// Waits until no service seems to read from the consumer; `None` if it doesn't exist.
    async fn quiet(&self, stream: &Stream) -> Result<Option<Info>, ReconsumeError> {
        let name = &self.config.consumer;
        let started = Instant::now();
        let mut quiet_since = started;
        let mut before = None;
        loop {
            let info = match stream.consumer_info(name).await {
                Ok(info) => info,
                Err(error) if is_missing(&error) => return Ok(None),
                Err(error) => return Err(ReconsumeError::Read(name.clone(), error)),
            };
            let place = (
                info.delivered.consumer_sequence,
                info.ack_floor.consumer_sequence,
                info.num_ack_pending,
            );
            let moved = before.is_some_and(|before| before != place);
            before = Some(place);
            if moved || (info.num_waiting > 0 && started.elapsed() > STALE_PULLS) {
                return Err(ReconsumeError::InUse(name.clone()));
            }
            if info.num_waiting > 0 {
                quiet_since = Instant::now();
            }
            if quiet_since.elapsed() >= QUIET {
                return Ok(Some(info));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The first message that is not consumed yet, if it is older than `since`: a later start would pass over
    /// it.
    async fn unfinished_before(
        &self,
        stream: &Stream,
        info: &Info,
        since: OffsetDateTime,
    ) -> Result<Option<u64>, ReconsumeError> {
        if info.num_pending == 0 && info.num_ack_pending == 0 {
            return Ok(None);
        }
        let first = info.ack_floor.stream_sequence + 1;
        match stream
            .get_first_raw_message_by_subject(self.filter(), first)
            .await
        {
            Ok(message) => Ok((message.time < since).then_some(message.sequence)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(ReconsumeError::Message(error)),
        }
    }
}

fn is_missing(error: &ConsumerInfoError) -> bool {
    matches!(error.kind(), ConsumerInfoErrorKind::NotFound)
}
