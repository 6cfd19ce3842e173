//! The settings of the broker.

use std::path::PathBuf;

use super::{Error, Given, NatsServer};

/// The broker and the names in it.
#[derive(Debug, Clone)]
pub struct NatsConfig {
    /// The servers.
    pub servers: Vec<NatsServer>,
    /// A credentials file; read again at every connect.
    pub creds: Option<PathBuf>,
    /// Root certificates.
    pub ca: Option<PathBuf>,
    /// A client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The stream of payment events.
    pub inbound_stream: String,
    /// Their subject, without the provider.
    pub inbound_subject: String,
    /// The durable consumer.
    pub consumer: String,
    /// The stream of order events.
    pub outbound_stream: String,
    /// Their subjects, without the event.
    pub outbound_prefix: String,
    /// Replicas of the streams that are created.
    pub replicas: usize,
}

impl NatsConfig {
    pub(super) fn parse(given: &Given) -> Result<Self, Error> {
        let servers = given.parse(
            "nats-url",
            "nats:// or tls:// URLs, separated by commas",
            |text| {
                text.split(',')
                    .map(|server| NatsServer::parse(server.trim()))
                    .collect()
            },
        )?;
        let files = (
            given.readable_file("nats-cert")?,
            given.readable_file("nats-key")?,
        );
        let identity = match files {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => {
                given.parse("nats-key", "given together with NATS_CERT", |_| None)?
            }
            (None, Some(_)) => {
                given.parse("nats-cert", "given together with NATS_KEY", |_| None)?
            }
        };
        let name = "a name without spaces, dots, slashes, * and >";
        let kind = "a subject without spaces, * and >";
        let inbound_stream: String = given.parse("inbound-stream", name, stream_name)?;
        let inbound_subject: String = given.parse("inbound-subject", kind, subject)?;
        // The service would read its own events.
        let other_stream =
            "a name without spaces, dots, slashes, * and >, not the inbound stream's";
        let outbound_stream = given.parse("outbound-stream", other_stream, |text| {
            stream_name(text).filter(|name| *name != inbound_stream)
        })?;
        let other_subject = "a subject without spaces, * and >, apart from the inbound subject";
        let outbound_prefix = given.parse("outbound-prefix", other_subject, |text| {
            subject(text).filter(|prefix| !overlap(prefix, &inbound_subject))
        })?;
        Ok(Self {
            servers,
            creds: given.readable_file("nats-creds")?,
            ca: given.readable_file("nats-ca")?,
            identity,
            inbound_stream,
            inbound_subject,
            consumer: given.parse("consumer", name, stream_name)?,
            outbound_stream,
            outbound_prefix,
            replicas: given.parse("stream-replicas", "an integer from 1 to 5", |text| {
                text.parse()
                    .ok()
                    .filter(|replicas| (1..=5).contains(replicas))
            })?,
        })
    }

    /// Whether one of the two streams captures this subject, with the subjects that this service creates them
    /// with.
    pub(super) fn takes(&self, subject: &str) -> bool {
        [&self.inbound_subject, &self.outbound_prefix]
            .into_iter()
            .any(|taken| overlap(taken, subject) && subject.len() > taken.len())
    }
}

fn stream_name(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '.' | '*' | '>' | '/' | '\\');
    (!text.is_empty() && text.len() <= 255 && text.chars().all(fits)).then(|| text.to_owned())
}

pub(super) fn subject(text: &str) -> Option<String> {
    let fits = |token: &str| {
        !token.is_empty()
            && token
                .chars()
                .all(|c| c.is_ascii_graphic() && !matches!(c, '*' | '>'))
    };
    text.split('.').all(fits).then(|| text.to_owned())
}

/// Whether one subject is the other, or lies under it.
fn overlap(one: &str, other: &str) -> bool {
    one.split('.').zip(other.split('.')).all(|(a, b)| a == b)
}
