//! A connection to read messages over, apart from all others: a message can break it.

use async_nats::Event;
use async_nats::jetstream::consumer::PullConsumer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;

use super::connect::{ConnectError, connect_with};
use super::topology::{Topology, TopologyError};

/// A consumer over a connection of its own.
#[derive(Debug)]
pub struct Reading {
    /// The consumer.
    pub consumer: PullConsumer,
    breaks: watch::Receiver<u64>,
}

/// A reading that could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    /// No connection.
    #[error("a connection to read over could not be made")]
    Connect(#[source] ConnectError),
    /// No consumer.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// A message as the stream holds it, headers and all in their own bytes.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its subject.
    pub subject: String,
    /// Its sequence.
    pub sequence: u64,
    /// Its headers, unread.
    pub headers: Option<Vec<u8>>,
    /// Its body.
    pub body: Vec<u8>,
    /// When it was stored.
    pub published: Option<OffsetDateTime>,
}

impl Reading {
    /// Waits until the connection was lost or ended, be it for a moment.
    pub async fn broken(&mut self) {
        // An error means that the connection's task is gone for good.
        let _ = self.breaks.changed().await;
    }
}

impl Topology {
    /// Begins to read: a new connection, stream and consumer made sure of.
    ///
    /// # Errors
    /// If there is no connection, or no consumer over it.
    pub async fn begin_reading(&self) -> Result<Reading, ReadingError> {
        let (broke, breaks) = watch::channel(0_u64);
        let client = connect_with(&self.config, move |event| match event {
            Event::Disconnected | Event::Closed => broke.send_modify(|count| *count += 1),
            Event::Connected
            | Event::LameDuckMode
            | Event::Draining
            | Event::SlowConsumer(_)
            | Event::ServerError(_)
            | Event::ClientError(_) => {}
        });
        let client = client.await.map_err(ReadingError::Connect)?;
        let consumer = Self::new(client, self.config.clone()).ensure().await?;
        Ok(Reading { consumer, breaks })
    }

    /// A message of the inbound stream; none if it is gone.
    ///
    /// # Errors
    /// If nobody answers.
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
            published: OffsetDateTime::parse(&stored.time, &Rfc3339).ok(),
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
