//! One pull: the messages that are available, or the next one to arrive.
//!
//! Each pull is a request of its own, without heartbeats (with them, async-nats can freeze and drop
//! what it buffered) and with a time limit of its own. So a lost request or a reconnect costs one
//! wait, not a stall.
//!
//! A server may deliver for a request until it has reported that the request is over. So when the
//! service stops, it waits for the request in flight, and records what that delivers like
//! everything else.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::{StatusCode, Subscriber};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::nats::Reading;

/// How long a pull waits for a first message before it asks again, and so how long a stopping service may
/// wait for it.
const WAIT: Duration = Duration::from_secs(1);

/// How long an immediate answer may take, and how long the next message of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The same when the service stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// The most bytes of one batch in memory. A single larger message still arrives by the request that
/// waits, which has no such limit.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most requests at a time, for accounts that allow few messages for each.
const REQUESTS_MAX: usize = 32;

/// Why a pull failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PullError {
    /// The subscription for the answers could not be made.
    #[error("the answers to a pull could not be subscribed to")]
    Subscribe(#[source] async_nats::SubscribeError),
    /// The request could not be sent.
    #[error("a pull could not be sent")]
    Request(#[source] async_nats::client::PublishError),
    /// The connection was lost or ended.
    #[error("the connection broke")]
    Broken,
    /// The server answered with an error.
    #[error("the server answers a pull with {0}")]
    Server(String),
    /// The broker doesn't permit it.
    #[error("{0}")]
    Denied(String),
    /// No answer came.
    #[error("pulls are not answered")]
    Unanswered,
}

impl PullError {
    /// Whether the consumer is at fault, rather than the connection.
    pub(super) fn is_about_the_consumer(&self) -> bool {
        match self {
            Self::Server(_) | Self::Denied(_) | Self::Unanswered => true,
            Self::Subscribe(_) | Self::Request(_) | Self::Broken => false,
        }
    }
}

/// Pulls the available messages, at most `max`; if there are none, waits up to a second for one
/// message.
pub(super) async fn pull(
    reading: &Reading,
    max: usize,
    stop: &CancellationToken,
) -> Result<Vec<Message>, PullError> {
    let there = Asked {
        messages: max,
        bytes: Some(BYTES_MAX),
        wait: None,
    };
    match ask(reading, there, stop).await {
        Ok((messages, _)) if messages.is_empty() => {}
        Ok((messages, _)) => return Ok(messages),
        Err(error @ PullError::Denied(_)) => return Err(error),
        // A message over the limit of bytes ends such a pull with an error. The request below has
        // no such limit, and meets any other error as well.
        Err(error) => {
            tracing::debug!(
                error = %error,
                "pull without waiting failed; one message is waited for"
            );
        }
    }
    if stop.is_cancelled() {
        return Ok(Vec::new());
    }
    let next = Asked {
        messages: 1,
        bytes: None,
        wait: Some(WAIT),
    };
    match ask(reading, next, stop).await? {
        (messages, Ended::NotSaid) if messages.is_empty() && !stop.is_cancelled() => {
            Err(PullError::Unanswered)
        }
        (messages, _) => Ok(messages),
    }
}

/// What a pull asks for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    messages: usize,
    bytes: Option<usize>,
    /// How long the server waits for a message if none is available.
    wait: Option<Duration>,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Nothing more can come.
    Said,
    /// It was abandoned.
    NotSaid,
}

/// Asks once, in several requests if one may not ask for as many, and collects the messages.
/// Messages that arrived before an error or a time-out are returned nevertheless.
async fn ask(
    reading: &Reading,
    asked: Asked,
    stop: &CancellationToken,
) -> Result<(Vec<Message>, Ended), PullError> {
    let client = reading.client();
    let inbox = client.new_inbox();
    let next = reading.next_subject();
    // Before anything that can be denied.
    let denied = reading.refusals().next_of(&[&next, &inbox]);
    let answers = client.subscribe(inbox.clone()).await;
    let mut answers = answers.map_err(PullError::Subscribe)?;
    let sizes = sizes(asked.messages, reading.request_max());
    for size in &sizes {
        let request = request(asked, *size, sizes.len());
        let sent = client.publish_with_reply(next.clone(), inbox.clone(), request.into());
        sent.await.map_err(PullError::Request)?;
    }
    let mut answer = Answer::new(&sizes);
    let idle = asked.wait.unwrap_or_default() + ANSWER_TIMEOUT;
    let ended = tokio::select! {
        biased;
        ended = collect(&mut answers, &mut answer, idle, stop) => ended,
        what = denied => {
            answer.failed.get_or_insert(PullError::Denied(what));
            Ended::NotSaid
        }
    };
    if answer.failed.is_none() && (ended == Ended::Said || !answer.messages.is_empty()) {
        reading.answered();
    }
    match answer.failed {
        Some(error) if answer.messages.is_empty() => Err(error),
        _ => {
            let context = reading.context();
            let messages = answer.messages.into_iter().map(|message| Message {
                message,
                context: context.clone(),
            });
            Ok((messages.collect(), ended))
        }
    }
}

async fn collect(
    answers: &mut Subscriber,
    answer: &mut Answer,
    idle: Duration,
    stop: &CancellationToken,
) -> Ended {
    let mut stopping = false;
    while !answer.is_complete() {
        let patience = if stopping { WAIT + STOP_TIMEOUT } else { idle };
        tokio::select! {
            biased;
            next = tokio::time::timeout(patience, answers.next()) => match next {
                Ok(Some(message)) => answer.take(message),
                Ok(None) | Err(_) => return Ended::NotSaid,
            },
            () = stop.cancelled(), if !stopping => stopping = true,
        }
    }
    Ended::Said
}

/// How many messages each request asks for.
fn sizes(messages: usize, request_max: Option<usize>) -> Vec<usize> {
    let size = request_max.unwrap_or(messages).min(messages).max(1);
    let full = (messages / size).min(REQUESTS_MAX);
    let mut sizes = vec![size; full];
    let rest = messages - full * size;
    if rest > 0 && full < REQUESTS_MAX {
        sizes.push(rest);
    }
    sizes
}

fn request(asked: Asked, size: usize, requests: usize) -> Vec<u8> {
    let mut request = serde_json::json!({ "batch": size });
    if let Some(wait) = asked.wait {
        request["expires"] = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX).into();
    } else {
        request["no_wait"] = true.into();
    }
    if let Some(bytes) = asked.bytes {
        request["max_bytes"] = (bytes / requests).into();
    }
    request.to_string().into_bytes()
}

/// What has arrived for some requests.
#[derive(Debug)]
struct Answer {
    messages: Vec<async_nats::Message>,
    /// Messages that can still arrive.
    open: usize,
    /// The largest request.
    size: usize,
    /// Requests that no status has ended yet.
    requests: usize,
    failed: Option<PullError>,
}

impl Answer {
    fn new(sizes: &[usize]) -> Self {
        Self {
            messages: Vec::new(),
            open: sizes.iter().sum(),
            size: sizes.iter().copied().max().unwrap_or_default(),
            requests: sizes.len(),
            failed: None,
        }
    }

    /// Whether all messages arrived, or the server has ended every request.
    fn is_complete(&self) -> bool {
        self.open == 0 || self.requests == 0
    }

    fn take(&mut self, message: async_nats::Message) {
        let status = message.status.unwrap_or(StatusCode::OK);
        match status {
            StatusCode::OK => {
                self.messages.push(message);
                self.open = self.open.saturating_sub(1);
            }
            StatusCode::IDLE_HEARTBEAT => {}
            StatusCode::NOT_FOUND | StatusCode::TIMEOUT => self.close(&message),
            other => {
                self.close(&message);
                let text = message.description.as_deref().unwrap_or_default();
                let error = format!("{} {text}", other.as_u16());
                self.failed.get_or_insert(PullError::Server(error));
            }
        }
    }

    /// Ends one request. The server reports how many of its messages were not delivered; without
    /// that report, all of them.
    fn close(&mut self, status: &async_nats::Message) {
        let headers = status.headers.as_ref();
        let left = headers.and_then(|headers| headers.get("Nats-Pending-Messages"));
        let left = left.and_then(|left| left.as_str().parse().ok());
        self.open = self.open.saturating_sub(left.unwrap_or(self.size));
        self.requests -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_asked_for_in_as_many_requests_as_a_limit_makes_necessary() {
        assert_eq!(sizes(2000, None), [2000]);
        assert_eq!(sizes(1, None), [1]);
        assert_eq!(sizes(2000, Some(5000)), [2000]);
        assert_eq!(sizes(2000, Some(700)), [700, 700, 600]);
        assert_eq!(sizes(1, Some(700)), [1]);
        assert_eq!(sizes(2000, Some(1)), [1; REQUESTS_MAX]);
    }

    fn message(status: Option<u16>, left: Option<usize>) -> async_nats::Message {
        let mut headers = async_nats::HeaderMap::new();
        if let Some(left) = left {
            headers.insert("Nats-Pending-Messages", left.to_string());
        }
        async_nats::Message {
            subject: "x".into(),
            reply: None,
            payload: bytes::Bytes::new(),
            headers: Some(headers),
            status: status.map(|status| StatusCode::from_u16(status).unwrap()),
            description: None,
            length: 0,
        }
    }

    /// Messages and statuses as they come; after how many of them nothing more is waited for.
    fn check(
        sizes: &[usize],
        came: &[(Option<u16>, Option<usize>)],
        complete_after: Option<usize>,
    ) {
        let mut answer = Answer::new(sizes);
        let mut complete = None;
        for (number, (status, left)) in came.iter().enumerate() {
            if answer.is_complete() {
                break;
            }
            answer.take(message(*status, *left));
            if answer.is_complete() {
                complete = Some(number + 1);
            }
        }
        assert_eq!(complete, complete_after, "{sizes:?} {came:?}");
    }

    #[test]
    fn an_answer_is_complete_when_nothing_more_can_come() {
        let one = (None, None);
        check(&[2], &[one, one], Some(2));
        check(&[2], &[one], None);
        check(&[2], &[(Some(404), None)], Some(1));
        check(&[3], &[one, (Some(408), Some(2))], Some(2));
        check(&[3], &[(Some(100), None), (Some(408), Some(3))], Some(2));
        // The first request is complete without a status, the second ends with a part, the third without
        // messages.
        check(
            &[2, 2, 2],
            &[one, one, one, (Some(408), Some(1)), (Some(404), None)],
            Some(5),
        );
        // A status overtakes a message of another request.
        check(&[1, 1], &[(Some(404), None), one], Some(2));
        check(&[1, 1], &[(Some(404), None), (Some(409), None)], Some(2));
    }
}
