//! What can be wrong with the streams and the consumer.

use std::error::Error as _;
use std::time::Duration;

use async_nats::jetstream::context::{
    ConsumerInfoError, ConsumerInfoErrorKind, CreateStreamError, CreateStreamErrorKind,
    GetStreamError, GetStreamErrorKind, RequestError, RequestErrorKind,
};
use async_nats::jetstream::stream::{ConsumerError, ConsumerErrorKind};

/// Why streams or consumer can't be used.
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
    #[error("consumer {0} could not be created or read")]
    Consumer(String, #[source] ConsumerError),
    /// The consumer can't be used, and the server refuses to create another one.
    #[error("consumer {consumer} can't be recreated and is left as it is, although {why}")]
    Irreplaceable {
        /// Which consumer.
        consumer: String,
        /// What is wrong with it.
        why: String,
        /// The server's answer when another one was created.
        #[source]
        source: ConsumerError,
    },
    /// The consumer can't be used, and was recreated too often.
    #[error(
        "consumer {consumer} was recreated a moment ago and is left alone for {}, although {why}",
        humantime::format_duration(Duration::from_secs(left.as_secs() + 1))
    )]
    Resting {
        /// Which consumer.
        consumer: String,
        /// How long it is left alone.
        left: Duration,
        /// What is wrong with it.
        why: String,
    },
    /// The consumer could not be read.
    #[error("consumer {0} could not be read")]
    ReadConsumer(String, #[source] ConsumerInfoError),
    /// A message could not be read.
    #[error("message {0} could not be read")]
    ReadMessage(u64, #[source] RequestError),
    /// The stream that captures a subject could not be looked up.
    #[error("the stream that captures {0} could not be looked up")]
    FindStream(String, #[source] RequestError),
}

/// What a [`TopologyError`] is about, for readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A stream: the server answered with an error about it.
    Stream,
    /// The consumer: the server answered with an error about it.
    Consumer,
    /// The broker: it didn't answer.
    Broker,
}

impl TopologyError {
    /// Whether the broker answered, and waiting won't help.
    pub fn is_unfit(&self) -> bool {
        match self {
            Self::Unfit { .. } => true,
            Self::ReadStream(..)
            | Self::CreateStream(..)
            | Self::Consumer(..)
            | Self::Irreplaceable { .. }
            | Self::Resting { .. }
            | Self::ReadConsumer(..)
            | Self::ReadMessage(..)
            | Self::FindStream(..) => false,
        }
    }

    /// Whether the broker was asked and didn't answer.
    pub(super) fn is_time_out(&self) -> bool {
        let is = |error: &RequestError| error.kind() == RequestErrorKind::TimedOut;
        match self {
            Self::ReadStream(_, error) => error
                .source()
                .and_then(|source| source.downcast_ref())
                .is_some_and(is),
            Self::CreateStream(_, error) => error.kind() == CreateStreamErrorKind::TimedOut,
            Self::Consumer(_, error) | Self::Irreplaceable { source: error, .. } => {
                error.kind() == ConsumerErrorKind::TimedOut
            }
            Self::ReadConsumer(_, error) => error.kind() == ConsumerInfoErrorKind::TimedOut,
            Self::ReadMessage(_, error) | Self::FindStream(_, error) => is(error),
            Self::Unfit { .. } | Self::Resting { .. } => false,
        }
    }

    /// What it is about.
    pub fn about(&self) -> About {
        match self {
            Self::Unfit { .. } => About::Stream,
            Self::ReadStream(_, error) => match error.kind() {
                GetStreamErrorKind::JetStream(_) => About::Stream,
                _ => About::Broker,
            },
            Self::CreateStream(_, error) => match error.kind() {
                CreateStreamErrorKind::JetStream(_) => About::Stream,
                _ => About::Broker,
            },
            Self::Consumer(_, error) => match error.kind() {
                ConsumerErrorKind::JetStream(_) => About::Consumer,
                _ => About::Broker,
            },
            Self::Irreplaceable { .. } | Self::Resting { .. } => About::Consumer,
            Self::ReadConsumer(..) | Self::ReadMessage(..) | Self::FindStream(..) => About::Broker,
        }
    }
}
