//! One pull: what is there, or the first message that comes.
//!
//! Each pull is a request of its own, without heartbeats (with them, async-nats can freeze and
//! drop what it buffered) and with an end that doesn't depend on the server's answer. So a lost
//! request or a reconnect costs one wait, not a stall.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchError;
use futures_util::{Stream, StreamExt as _};

/// How long a pull waits for a first message before it asks again.
const WAIT: Duration = Duration::from_secs(5);

/// How long an answer may take that needs no waiting.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A bound on what one batch holds in memory. A single larger message still comes through the
/// wait, which has no such bound.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// A pull that failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PullError {
    /// The request could not be sent.
    #[error("the request could not be sent: {0}")]
    Request(#[from] BatchError),
    /// The connection was lost or ended.
    #[error("the connection broke")]
    Broken,
    /// The server answered with an error.
    #[error("{0}")]
    Server(async_nats::Error),
}

/// Pulls what is there, at most `max`; if nothing is there, waits a while for one message.
pub(super) async fn pull(consumer: &PullConsumer, max: usize) -> Result<Vec<Message>, PullError> {
    let batch = consumer
        .fetch()
        .max_messages(max)
        .max_bytes(BYTES_MAX)
        .messages()
        .await?;
    let there = collect(batch, ANSWER_TIMEOUT).await;
    match there {
        Ok(messages) if messages.is_empty() => {}
        Ok(messages) => return Ok(messages),
        // A message over the bound ends such a pull with an error; the wait below has no bound,
        // and any other error it will meet as well.
        Err(error) => tracing::debug!(error = %error, "pulling what is there failed"),
    }
    let batch = consumer
        .batch()
        .max_messages(1)
        .expires(WAIT)
        .messages()
        .await?;
    collect(batch, WAIT + ANSWER_TIMEOUT).await
}

/// Collects a batch. What came before an error or the time-out is worked on all the same.
async fn collect(
    batch: impl Stream<Item = Result<Message, async_nats::Error>>,
    timeout: Duration,
) -> Result<Vec<Message>, PullError> {
    let mut messages = Vec::new();
    let mut failed = None;
    {
        let mut batch = std::pin::pin!(batch);
        let all = async {
            while let Some(next) = batch.next().await {
                match next {
                    Ok(message) => messages.push(message),
                    Err(error) => {
                        failed = Some(error);
                        return;
                    }
                }
            }
        };
        let _ = tokio::time::timeout(timeout, all).await;
    }
    match failed {
        Some(error) if messages.is_empty() => Err(PullError::Server(error)),
        _ => Ok(messages),
    }
}
