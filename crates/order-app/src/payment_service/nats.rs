//! Questions over NATS: one request, its reply in one message.

use std::sync::Arc;

use async_nats::client::RequestErrorKind;
use tokio::sync::Mutex;

use super::{AskError, Reaction, retry_after};
use crate::config::NatsConfig;
use crate::nats::{ConnectError, Link};

/// The NATS side of the payment service. It has a connection of its own: a reply with headers that
/// the client can't read ends the connection it comes over.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    config: NatsConfig,
    subject: String,
    link: Arc<Mutex<Link>>,
}

impl Requests {
    pub(super) async fn new(config: &NatsConfig, subject: String) -> Result<Self, ConnectError> {
        Ok(Self {
            config: config.clone(),
            subject,
            link: Arc::new(Mutex::new(Link::new(config).await?)),
        })
    }

    pub(super) async fn send(&self, question: Vec<u8>) -> Result<Reaction, AskError> {
        let (client, denied, replies) = {
            let mut link = self.link.lock().await;
            if link.is_gone() {
                *link = Link::new(&self.config).await.map_err(unreachable)?;
            }
            link.replies().renew(link.client()).await;
            let denied = link.refusals().next_of(&[&self.subject, "_INBOX.>"]);
            (link.client().clone(), denied, link.replies().clone())
        };
        let asked = client.request(self.subject.clone(), question.into());
        let answered = tokio::select! {
            biased;
            answered = asked => answered,
            what = denied => return Err(AskError::Denied(what)),
        };
        match &answered {
            Ok(_) => replies.arrived(),
            Err(error) => match error.kind() {
                RequestErrorKind::NoResponders => replies.arrived(),
                RequestErrorKind::TimedOut => replies.missing(),
                RequestErrorKind::InvalidSubject
                | RequestErrorKind::MaxPayloadExceeded
                | RequestErrorKind::Other => {}
            },
        }
        let message = answered.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => AskError::Timeout,
            RequestErrorKind::NoResponders
            | RequestErrorKind::InvalidSubject
            | RequestErrorKind::MaxPayloadExceeded
            | RequestErrorKind::Other => unreachable(error),
        })?;
        // Errors in the form of the NATS services framework.
        let header = |name: &str| {
            let headers = message.headers.as_ref()?;
            headers.get(name).map(|value| value.as_str().to_owned())
        };
        let pause = header("Retry-After").and_then(|text| retry_after(&text));
        if let Some(code) = header("Nats-Service-Error-Code") {
            if code == "429" || pause.is_some() {
                return Ok(Reaction::NotNow(pause));
            }
            return Err(AskError::Status(code));
        }
        if let Some(stream) = stored_in(&message.payload) {
            return Err(AskError::Captured(stream));
        }
        let body = Ok(message.payload.to_vec());
        Ok(Reaction::Reply { body, pause })
    }
}

/// The stream that stored the question and acked it, if that is what the reply is.
fn stored_in(reply: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Ack {
        stream: String,
        #[expect(dead_code, reason = "required: every ack has it")]
        seq: u64,
        payments: Option<serde::de::IgnoredAny>,
    }
    let ack: Ack = serde_json::from_slice(reply).ok()?;
    ack.payments.is_none().then_some(ack.stream)
}

fn unreachable(error: impl std::error::Error + Send + Sync + 'static) -> AskError {
    AskError::Unreachable(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ack_of_a_stream_is_no_reply() {
        for (reply, stream) in [
            (r#"{"stream":"PAYMENTS","seq":7}"#, Some("PAYMENTS")),
            (
                r#"{"stream":"PAYMENTS","domain":"hub","seq":7,"duplicate":true}"#,
                Some("PAYMENTS"),
            ),
            (
                r#"{"error":{"code":503},"stream":"PAYMENTS","seq":0}"#,
                Some("PAYMENTS"),
            ),
            (r#"{"payments":[]}"#, None),
            (r#"{"payments":[],"stream":"x","seq":1}"#, None),
            (r#"{"stream":"x"}"#, None),
            ("", None),
        ] {
            assert_eq!(stored_in(reply.as_bytes()).as_deref(), stream, "{reply}");
        }
    }
}
