//! A payment event as it was delivered, whichever way it was read.

use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use bytes::Bytes;
use order_store::NewDeadLetter;
use time::OffsetDateTime;

use crate::nats::StoredMessage;
use crate::payment_event::{BODY_MAX, NotUnderstood};

/// A message in hand.
#[derive(Debug, Clone)]
pub(super) struct Incoming {
    pub(super) subject: String,
    pub(super) body: Bytes,
    headers: Headers,
    stream: String,
    /// Its number in the stream.
    pub(super) sequence: u64,
    /// Where its ack goes.
    pub(super) ack_to: String,
    /// How often it was delivered.
    pub(super) delivered: i64,
    /// When it was stored; always known for messages that a server delivers.
    pub(super) published: Option<OffsetDateTime>,
}

#[derive(Debug, Clone)]
enum Headers {
    None,
    Parsed(HeaderMap),
    /// As stored: the client could not parse them.
    Raw(Vec<u8>),
}

impl From<Message> for Incoming {
    fn from(message: Message) -> Self {
        let (stream, sequence, delivered, published) = match message.info() {
            Ok(info) => {
                let stream = info.stream.to_owned();
                (
                    stream,
                    info.stream_sequence,
                    info.delivered,
                    Some(info.published),
                )
            }
            // A reply subject that no server writes.
            Err(_) => (String::new(), 0, 1, None),
        };
        let message = message.message;
        Self {
            subject: message.subject.to_string(),
            body: message.payload,
            headers: message.headers.map_or(Headers::None, Headers::Parsed),
            stream,
            sequence,
            ack_to: message
                .reply
                .map(|reply| reply.to_string())
                .unwrap_or_default(),
            delivered,
            published,
        }
    }
}

impl Incoming {
    /// A message that was read from the stream because its delivery broke the connection.
    pub(super) fn stored(message: StoredMessage, stream: &str, consumer: &str) -> Self {
        // A server finds the delivery by the sequence in the stream; the other numbers only appear in samples
        // of acks.
        let sequence = message.sequence;
        let ack_to = format!("$JS.ACK.{stream}.{consumer}.1.{sequence}.{sequence}.0.0");
        Self {
            subject: message.subject,
            body: message.body.into(),
            headers: message.headers.map_or(Headers::None, Headers::Raw),
            stream: stream.to_owned(),
            sequence,
            ack_to,
            delivered: 1,
            published: message.published,
        }
    }

    #[cfg(test)]
    pub(super) fn for_tests(sequence: u64, body: Vec<u8>) -> Self {
        Self {
            subject: "payments.events.acme".to_owned(),
            body: body.into(),
            headers: Headers::None,
            stream: "PAYMENTS".to_owned(),
            sequence,
            ack_to: format!("ack.{sequence}"),
            delivered: 1,
            published: None,
        }
    }

    /// The dead letter of this message, which keeps it byte for byte.
    pub(super) fn letter(&self, fault: &NotUnderstood) -> NewDeadLetter {
        NewDeadLetter {
            stream: self.stream.clone(),
            subject: self.subject.clone(),
            sequence: self.sequence,
            headers: self.headers.to_json(),
            body: self.body.iter().copied().take(BODY_MAX).collect(),
            reason: fault.reason.as_str(),
            detail: fault.detail.clone(),
        }
    }
}

impl Headers {
    fn to_json(&self) -> String {
        let mut object = serde_json::Map::new();
        match self {
            Self::None => {}
            Self::Parsed(map) => {
                for (name, values) in map.iter() {
                    let values = values.iter().map(|value| value.as_str().into()).collect();
                    object.insert(name.to_string(), serde_json::Value::Array(values));
                }
            }
            Self::Raw(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                // The first line is the version.
                for line in text.split("\r\n").skip(1).filter(|line| !line.is_empty()) {
                    let (name, value) = line.split_once(':').unwrap_or((line, ""));
                    let values = object.entry(name).or_insert_with(|| serde_json::json!([]));
                    if let Some(values) = values.as_array_mut() {
                        values.push(value.trim_start().into());
                    }
                }
            }
        }
        serde_json::Value::Object(object).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_no_client_reads_are_kept_as_well_as_can_be() {
        for (stored, expect) in [
            (&b"NATS/1.0\r\n\r\n"[..], r"{}"),
            (
                b"NATS/1.0\r\nA: b\rc\r\nA: d\r\n\r\n",
                r#"{"A":["b\rc","d"]}"#,
            ),
            (
                b"NATS/1.0\r\nTrace: caf\xe9\r\n\r\n",
                "{\"Trace\":[\"caf\u{fffd}\"]}",
            ),
            (
                b"NATS/1.0\r\nno colon\r\n: no name\r\n",
                r#"{"":["no name"],"no colon":[""]}"#,
            ),
            (b"", r"{}"),
        ] {
            assert_eq!(Headers::Raw(stored.to_vec()).to_json(), expect);
        }
    }
}
