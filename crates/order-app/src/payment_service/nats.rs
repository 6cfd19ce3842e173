//! Questions over NATS: one request, its reply in one message.

use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use tokio::sync::Mutex;

use super::{AskError, Reaction};
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
        let client = {
            let mut link = self.link.lock().await;
            if link.is_gone() {
                *link = Link::new(&self.config).await.map_err(unreachable)?;
            }
            link.client().clone()
        };
        let asked = client.request(self.subject.clone(), question.into());
        let message = asked.await.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => AskError::Timeout,
            RequestErrorKind::NoResponders
            | RequestErrorKind::InvalidSubject
            | RequestErrorKind::MaxPayloadExceeded
            | RequestErrorKind::Other => unreachable(error),
        })?;
        // Errors as services built with NATS' own framework tell them.
        let header = |name: &str| {
            let headers = message.headers.as_ref()?;
            headers.get(name).map(|value| value.as_str().to_owned())
        };
        if let Some(code) = header("Nats-Service-Error-Code") {
            let pause = header("Retry-After").and_then(|text| text.trim().parse().ok());
            if code == "429" || pause.is_some() {
                return Ok(Reaction::NotNow(pause.map(Duration::from_secs)));
            }
            return Err(AskError::Status(code));
        }
        Ok(Reaction::Reply(message.payload.to_vec()))
    }
}

fn unreachable(error: impl std::error::Error + Send + Sync + 'static) -> AskError {
    AskError::Unreachable(Box::new(error))
}
