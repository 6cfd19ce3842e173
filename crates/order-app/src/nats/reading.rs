//! A separate connection to read messages over: a message can break it.

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::Info;
use async_nats::{Client, Event};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::sync::watch;

use super::connect::{ConnectError, connect_with};
use super::error::TopologyError;
use super::refusals::Refusals;
use super::replies::Replies;
use super::topology::Topology;
use crate::time_format;

/// A consumer over a connection of its own.
#[derive(Debug)]
pub struct Reading {
    topology: Topology,
    /// The consumer as the server granted it.
    info: Info,
    breaks: watch::Receiver<u64>,
}

/// Why reading could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    /// No connection.
    #[error("a connection to read over could not be made")]
    Connect(#[source] ConnectError),
    /// No consumer.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// A message as the stream stores it.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its subject.
    pub subject: String,
    /// Its sequence.
    pub sequence: u64,
    /// Its headers, not parsed.
    pub headers: Option<Vec<u8>>,
    /// Its body.
    pub body: Vec<u8>,
    /// When it was stored.
    pub published: Option<OffsetDateTime>,
}

impl Reading {
    /// The connection.
    pub fn client(&self) -> Client {
        self.topology.client()
    }

    /// JetStream on the connection.
    pub fn context(&self) -> Context {
        self.topology.context()
    }

    /// What the broker denies.
    pub fn refusals(&self) -> &Refusals {
        self.topology.refusals()
    }

    /// The subject of requests for messages.
    pub fn next_subject(&self) -> String {
        let Info {
            stream_name, name, ..
        } = &self.info;
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream_name}.{name}")
    }

    /// Notes that the server answered a request for messages.
    pub fn answered(&self) {
        self.topology.pulls().worked();
        self.refusals().permitted(&self.next_subject());
    }

    /// The most messages that one request may ask for, if there is a limit.
    pub fn request_max(&self) -> Option<usize> {
        usize::try_from(self.info.config.max_batch)
            .ok()
            .filter(|max| *max > 0)
    }

    /// Waits until the connection is lost or ended. A loss counts even if it was short, or before this call.
    pub fn broken(&self) -> impl Future<Output = ()> + use<> {
        let mut breaks = self.breaks.clone();
        async move {
            // An error means that the connection's task is gone for good.
            let _ = breaks.changed().await;
        }
    }
}

impl Topology {
    /// Begins to read: opens a new connection, and makes sure of stream and consumer.
    ///
    /// # Errors
    /// If there is no connection, or no consumer over it.
    pub async fn begin_reading(&self) -> Result<Reading, ReadingError> {
        let (broke, breaks) = watch::channel(0_u64);
        let refusals = &self.shared.refusals;
        // A reading whose requests are not answered is begun again, over another connection.
        let replies = Replies::default();
        let client = connect_with(&self.config, refusals, &replies, move |event| match event {
            Event::Disconnected | Event::Closed => broke.send_modify(|count| *count += 1),
            Event::Connected
            | Event::LameDuckMode
            | Event::Draining
            | Event::SlowConsumer(_)
            | Event::ServerError(_)
            | Event::ClientError(_) => {}
        });
        let topology = self.over(client.await.map_err(ReadingError::Connect)?, replies);
        let info = topology.ensure().await?;
        Ok(Reading {
            topology,
            info,
            breaks,
        })
    }

    /// A message of the inbound stream; `None` if it is deleted.
    ///
    /// # Errors
    /// If the broker doesn't answer.
    pub async fn stored_message(
        &self,
        sequence: u64,
    ) -> Result<Option<StoredMessage>, TopologyError> {
        let subject = format!("STREAM.MSG.GET.{}", self.config.inbound_stream);
        let asked = serde_json::json!({ "seq": sequence });
        let answer: Answer = self
            .context
            .request(subject, &asked)
            .await
            .map_err(|error| TopologyError::ReadMessage(sequence, error))?;
        Ok(answer.message.map(|stored| StoredMessage {
            subject: stored.subject,
            sequence: stored.seq,
            headers: stored.hdrs.and_then(|text| STANDARD.decode(text).ok()),
            body: stored
                .data
                .and_then(|text| STANDARD.decode(text).ok())
                .unwrap_or_default(),
            published: time_format::parse(&stored.time).ok(),
        }))
    }
}

#[derive(Deserialize)]
struct Answer {
    message: Option<Stored>,
}

#[derive(Deserialize)]
struct Stored {
    subject: String,
    seq: u64,
    hdrs: Option<String>,
    data: Option<String>,
    time: String,
}
