//! An inspection of the broker, every few seconds: is everything in place, and can it be used?

use std::time::Duration;

use async_nats::jetstream::AckKind;

use super::error::{About, TopologyError};
use super::fitness::{Role, covers, hindrance, listed};
use super::topology::Topology;

/// How long the answer to a trial ack may take.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Subjects that are permitted, or not needed, when streams and consumer are in place.
const DONE: [&str; 6] = [
    "_INBOX.",
    "$JS.API.STREAM.INFO.",
    "$JS.API.STREAM.CREATE.",
    "$JS.API.CONSUMER.INFO.",
    "$JS.API.CONSUMER.CREATE.",
    "$JS.API.CONSUMER.DELETE.",
];

/// What an inspection found, with streams and consumer in place.
#[derive(Debug, Default)]
pub struct Inspection {
    /// Messages that are not delivered to the consumer yet.
    pub pending: u64,
    /// Why the consumer can't be used, if it can't.
    pub consumer: Option<String>,
    /// Why a stream can't be used, if one can't.
    pub stream: Option<String>,
}

impl Topology {
    /// Inspects both streams and the consumer, and repairs the consumer.
    ///
    /// # Errors
    /// If they are not in place, or the broker doesn't answer.
    pub async fn inspect(&self) -> Result<Inspection, TopologyError> {
        let inspected = self.inspect_all().await;
        match &inspected {
            Err(error) if error.is_time_out() => self.replies.missing(),
            // No connection, perhaps: that says nothing about replies. Any other error is an answer.
            Err(error) if error.about() == About::Broker => {}
            Ok(_) | Err(_) => self.replies.arrived(),
        }
        inspected
    }

    async fn inspect_all(&self) -> Result<Inspection, TopologyError> {
        let consumer = self.follow_consumer().await?;
        let outbound = self.stream(Role::Outbound).await?;
        let outbound = &outbound.cached_info().config;
        self.check(Role::Outbound, outbound)?;
        let inbound = self.inbound_info().await?;
        // Everything is in place: whatever else was denied isn't needed.
        for done in DONE {
            self.refusals().permitted_under(done);
        }
        self.try_ack().await;

        let paused = consumer.config.pause_until.filter(|_| consumer.paused);
        let paused = paused.map(|until| format!("it is paused until {until}"));
        let fault = paused.or_else(|| self.pulls().fault());
        let name = &self.config.consumer;
        let hindered = |role, found| hindrance(role, found, &self.stream_config(role));
        Ok(Inspection {
            pending: consumer.num_pending,
            consumer: fault.map(|why| format!("consumer {name} can't be read from: {why}")),
            stream: hindered(Role::Inbound, &inbound.config)
                .or_else(|| hindered(Role::Outbound, outbound)),
        })
    }

    /// What is denied, as text, except for subjects of order events: the relay reports those.
    pub fn denials(&self) -> Vec<String> {
        let outbound = format!(" {}.", self.config.outbound_prefix);
        let mut denials = self.refusals().denials();
        denials.retain(|denial| !denial.contains(&outbound));
        denials
    }

    /// Makes sure that no stream captures the questions to the payment service: it would answer each with its
    /// ack.
    ///
    /// # Errors
    /// [`TopologyError::Unfit`] if a stream does; the others are transient.
    pub async fn check_question(&self, subject: &str) -> Result<(), TopologyError> {
        let Some(stream) = self.stream_that_takes(subject).await? else {
            return Ok(());
        };
        let found = self.context.get_stream(&stream).await;
        let found = found.map_or_else(
            |_| "subjects that capture it".to_owned(),
            |found| listed(&found.cached_info().config),
        );
        Err(TopologyError::Unfit {
            stream,
            field: "subjects",
            wanted: format!("without {subject}, where the payment service is asked"),
            found,
        })
    }

    async fn stream_that_takes(&self, subject: &str) -> Result<Option<String>, TopologyError> {
        const NAMES: &str = "$JS.API.STREAM.NAMES";
        let asked = serde_json::json!({ "subject": subject });
        let denied = self.refusals().next_of(&[NAMES]);
        tokio::select! {
            biased;
            answer = self.context.request("STREAM.NAMES", &asked) => {
                let answer: Names = answer
                    .map_err(|error| TopologyError::FindStream(subject.to_owned(), error))?;
                Ok(answer.streams.into_iter().flatten().next())
            }
            // This permission isn't needed: the service's own streams are checked without it.
            _ = denied => {
                self.refusals().permitted(NAMES);
                for role in [Role::Inbound, Role::Outbound] {
                    let stream = self.stream(role).await?;
                    let config = &stream.cached_info().config;
                    if config.subjects.iter().any(|taken| covers(taken, subject)) {
                        return Ok(Some(config.name.clone()));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Sends an ack that changes nothing: a denied ack is only reported, never answered.
    async fn try_ack(&self) {
        let (stream, consumer) = (&self.config.inbound_stream, &self.config.consumer);
        // "In progress", for a message that doesn't exist.
        let never = (1_u64 << 53) - 1;
        let subject = format!("$JS.ACK.{stream}.{consumer}.1.{never}.{never}.0.0");
        let client = self.client();
        let asked = client.request(subject.clone(), AckKind::Progress.into());
        if let Ok(Ok(answer)) = tokio::time::timeout(ACK_TIMEOUT, asked).await
            && answer.status.is_none()
        {
            self.refusals().permitted(&subject);
        }
    }
}

#[derive(serde::Deserialize)]
struct Names {
    streams: Option<Vec<String>>,
}
