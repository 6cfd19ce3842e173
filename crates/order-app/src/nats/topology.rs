//! The streams and the durable consumer: created if missing, verified if there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::consumer::{Info as ConsumerInfo, PullConsumer};
use async_nats::jetstream::context::{
    ConsumerInfoError, CreateStreamError, GetStreamError, GetStreamErrorKind, RequestError,
};
use async_nats::jetstream::stream::{ConsumerError, Info as StreamInfo, Stream};
use async_nats::jetstream::{Context, ErrorCode};

use super::astray::Seen;
use super::fitness::{stream_config, verify};
use crate::config::NatsConfig;

/// Redelivery after this long without an ack.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);

/// The names in the broker.
#[derive(Debug, Clone)]
pub struct Topology {
    pub(super) context: Context,
    pub(super) config: NatsConfig,
    seen: Arc<Mutex<Option<Seen>>>,
}

/// The broker is not as this service needs it, or could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// An existing stream that loses or forgets messages. It is never altered.
    #[error("stream {stream}: {field} is {found}, but must be {wanted}")]
    Unfit {
        /// Which stream.
        stream: String,
        /// Which of its settings.
        field: &'static str,
        /// What it should be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The stream could not be read.
    #[error("stream {0} could not be read")]
    ReadStream(String, #[source] GetStreamError),
    /// The stream could not be created.
    #[error("stream {0} could not be created")]
    CreateStream(String, #[source] CreateStreamError),
    /// The consumer could not be read or created.
    #[error("consumer {0} could not be made ready")]
    Consumer(String, #[source] ConsumerError),
    /// The consumer could not be read.
    #[error("consumer {0} could not be read")]
    ReadConsumer(String, #[source] ConsumerInfoError),
    /// A message could not be read.
    #[error("message {0} could not be read")]
    ReadMessage(u64, #[source] RequestError),
}

impl TopologyError {
    /// Whether the broker answered, and waiting won't help.
    pub fn is_unfit(&self) -> bool {
        match self {
            Self::Unfit { .. } => true,
            Self::ReadStream(..)
            | Self::CreateStream(..)
            | Self::Consumer(..)
            | Self::ReadConsumer(..)
            | Self::ReadMessage(..) => false,
        }
    }
}

impl Topology {
    /// The names of `config` on a connection.
    pub fn new(client: async_nats::Client, config: NatsConfig) -> Self {
        let context = async_nats::jetstream::new(client);
        let seen = Arc::default();
        Self {
            context,
            config,
            seen,
        }
    }

    /// The connection.
    pub fn client(&self) -> async_nats::Client {
        self.context.client()
    }

    /// The inbound subject without the provider.
    pub fn inbound_subject(&self) -> &str {
        &self.config.inbound_subject
    }

    /// JetStream on the connection.
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// The stream of order events.
    pub fn outbound_stream(&self) -> &str {
        &self.config.outbound_stream
    }

    /// The outbound subjects without the event.
    pub fn outbound_prefix(&self) -> &str {
        &self.config.outbound_prefix
    }

    /// Makes sure of the inbound stream and its consumer; safe to repeat.
    ///
    /// # Errors
    /// [`TopologyError::Unfit`] if the stream can't be used as it is; the others may pass.
    pub async fn ensure(&self) -> Result<PullConsumer, TopologyError> {
        let stream = self.ensure_inbound().await?;
        self.ensure_consumer(&stream).await?;
        self.follow_consumer().await?;
        self.ensure_consumer(&stream).await
    }

    /// Makes sure of the outbound stream; safe to repeat.
    ///
    /// # Errors
    /// [`TopologyError::Unfit`] if the stream can't be used as it is; the others may pass.
    pub async fn ensure_outbound(&self) -> Result<(), TopologyError> {
        let subject = format!("{}.>", self.config.outbound_prefix);
        self.ensure_stream(&self.config.outbound_stream, subject)
            .await
            .map(drop)
    }

    /// How many messages the consumer has not been given yet; an answer also says that both
    /// streams and the consumer are there.
    ///
    /// # Errors
    /// If they are not, or nobody answers.
    pub async fn pending(&self) -> Result<u64, TopologyError> {
        let pending = self.follow_consumer().await?;
        let outbound = &self.config.outbound_stream;
        let there = self.context.get_stream(outbound).await;
        there.map_err(|error| TopologyError::ReadStream(outbound.clone(), error))?;
        Ok(pending)
    }

    /// The state of the consumer.
    ///
    /// # Errors
    /// If it isn't there, or nobody answers.
    pub async fn consumer_info(&self) -> Result<ConsumerInfo, TopologyError> {
        let (stream, consumer) = (&self.config.inbound_stream, &self.config.consumer);
        let found = self.context.get_stream_no_info(stream).await;
        let found = found.map_err(|error| TopologyError::ReadStream(stream.clone(), error))?;
        let info = found.consumer_info(consumer).await;
        info.map_err(|error| TopologyError::ReadConsumer(consumer.clone(), error))
    }

    pub(super) async fn inbound_info(&self) -> Result<StreamInfo, TopologyError> {
        let name = &self.config.inbound_stream;
        let found = self.context.get_stream(name).await;
        let found = found.map_err(|error| TopologyError::ReadStream(name.clone(), error))?;
        Ok(found.cached_info().clone())
    }

    /// Remembers what was seen; what was seen before.
    pub(super) fn swap_seen(&self, seen: Seen) -> Option<Seen> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(seen)
    }

    /// Makes the consumer again, reading from the beginning.
    pub(super) async fn recreate_consumer(&self) -> Result<(), TopologyError> {
        let (stream, consumer) = (&self.config.inbound_stream, &self.config.consumer);
        // Another instance may have been faster; one that is gone is what is wanted.
        if let Err(error) = self
            .context
            .delete_consumer_from_stream(consumer, stream)
            .await
        {
            tracing::debug!(error = %error, "the consumer could not be deleted");
        }
        let stream = self.ensure_inbound().await?;
        self.ensure_consumer(&stream).await.map(drop)
    }

    /// What the consumer reads.
    pub(super) fn filter(&self) -> String {
        format!("{}.>", self.config.inbound_subject)
    }

    pub(super) async fn ensure_inbound(&self) -> Result<Stream, TopologyError> {
        self.ensure_stream(&self.config.inbound_stream, self.filter())
            .await
    }

    async fn ensure_stream(&self, name: &str, subject: String) -> Result<Stream, TopologyError> {
        match self.context.get_stream(name).await {
            Ok(stream) => {
                verify(&stream.cached_info().config, &subject)?;
                Ok(stream)
            }
            Err(error) if is_missing(&error) => {
                tracing::info!(stream.name = %name, "the stream is missing and is created");
                let created = self
                    .context
                    .create_stream(stream_config(name, subject))
                    .await;
                created.map_err(|error| TopologyError::CreateStream(name.to_owned(), error))
            }
            Err(error) => Err(TopologyError::ReadStream(name.to_owned(), error)),
        }
    }
}

fn is_missing(error: &GetStreamError) -> bool {
    match error.kind() {
        GetStreamErrorKind::JetStream(error) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    }
}
