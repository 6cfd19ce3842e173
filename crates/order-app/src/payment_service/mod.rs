//! Questions to the payment service: over NATS or over HTTP, at one rate for all instances.
//!
//! This module decides nothing. An answer that isn't definite is *unknown* (`reply`); a missing
//! reply is an [`AskError`]. Enter at [`PaymentService::ask`].

mod http;
mod nats;
mod reply;
#[cfg(test)]
mod tests;

use std::time::Duration;

use order_fsm::OrderId;
use order_store::{QUESTIONS_CLOSED_MAX, Slot, Store};
use tokio::time::{Instant, timeout_at};

use crate::clock;
use crate::config::{Config, PaymentQuery};
use crate::nats::ConnectError;
use crate::telemetry::chain;

pub use reply::{Answer, Reply, State, Unreadable};

/// The most orders in one question.
pub const ORDERS_MAX: usize = 500;

/// How long a question waits for its reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of a reply: 500 orders with a dozen entries each.
const REPLY_MAX: usize = 4 * 1024 * 1024;

/// The pause after a reply that asks for one without naming its length.
const PAUSE_DEFAULT: Duration = Duration::from_secs(1);

const STRAY_ENTRIES: &str = "orderd_payment_service_stray_entries_total";

/// What the payment service last named in `Retry-After`, before it is capped.
const RETRY_AFTER_SECONDS: &str = "orderd_payment_service_retry_after_seconds";

/// Why a question has no readable reply.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The question wasn't sent: its turn is further away than the caller would wait.
    #[error("the payment service must not be asked for another {0:?}")]
    NotYet(Duration),
    /// The service replied that it must not be asked again for this time.
    #[error("the payment service is asked too often; it asked for a pause of {0:?}")]
    SentAway(Duration),
    /// No reply came in time.
    #[error("the payment service did not answer within {REPLY_TIMEOUT:?}")]
    Timeout,
    /// The question could not be sent, or its reply could not be received.
    #[error("the payment service could not be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It closed the connection before any answer came, twice.
    #[error("the payment service closed the connection without an answer")]
    HungUp(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The broker denies the request.
    #[error("the payment service can't be asked: {0}")]
    Denied(String),
    /// A stream captures the questions: its ack came instead of a reply.
    #[error(
        "stream {0} captures the questions to the payment service and answers each with its ack"
    )]
    Captured(String),
    /// It answered with an error.
    #[error("the payment service answered with {0}")]
    Status(String),
    /// The reply is too large.
    #[error("the reply has more than {REPLY_MAX} bytes")]
    TooLarge,
    /// The reply can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The turn of the question could not be reserved.
    #[error("a turn for the question could not be reserved")]
    Store(#[from] order_store::Error),
}

impl AskError {
    /// Whether a question about fewer of these orders may get a reply: one of them, or their number, may be
    /// the cause.
    pub fn may_be_for_an_order(&self) -> bool {
        match self {
            Self::Timeout | Self::Status(_) | Self::TooLarge | Self::Unreadable(_) => true,
            Self::NotYet(_)
            | Self::SentAway(_)
            | Self::Unreachable(_)
            | Self::HungUp(_)
            | Self::Denied(_)
            | Self::Captured(_)
            | Self::Store(_) => false,
        }
    }
}

/// What a transport received.
#[derive(Debug)]
enum Reaction {
    /// A reply. A pause that it asks for counts even if its body can't be received.
    Reply {
        body: Result<Vec<u8>, AskError>,
        pause: Option<Duration>,
    },
    /// Not now: ask again after this time.
    NotNow(Option<Duration>),
}

/// The payment service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PaymentService {
    transport: Transport,
    store: Store,
    spacing: Duration,
    livemode: bool,
}

#[derive(Debug, Clone)]
enum Transport {
    Nats(nats::Requests),
    Http(http::Posts),
}

/// Why questions can't be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// No connection to NATS can be made.
    #[error(transparent)]
    Nats(#[from] ConnectError),
    /// No HTTP client can be made.
    #[error("ORDERD_PAYMENT_QUERY: no HTTP client can be made")]
    Http(#[source] reqwest::Error),
}

impl PaymentService {
    /// The payment service of these settings, if one is set. The store reserves the turns.
    ///
    /// # Errors
    /// If files of the settings can't be used.
    pub async fn new(config: &Config, store: Store) -> Result<Option<Self>, SetUpError> {
        let transport = match &config.payment_query {
            PaymentQuery::Nobody => return Ok(None),
            PaymentQuery::Nats(subject) => {
                Transport::Nats(nats::Requests::new(&config.nats, subject.clone()).await?)
            }
            PaymentQuery::Http(url) => {
                Transport::Http(http::Posts::new(url.clone()).map_err(SetUpError::Http)?)
            }
        };
        // 5 % slower than allowed, so that jitter never makes one too many in a second.
        let spacing = Duration::from_secs(1).mul_f64(1.05) / config.reconcile_rate;
        Ok(Some(Self {
            transport,
            store,
            spacing,
            livemode: config.livemode,
        }))
    }

    /// Asks about at most [`ORDERS_MAX`] orders as soon as it is this question's turn. If that is
    /// later than `wait_max`, the question isn't sent.
    ///
    /// # Errors
    /// If there is no readable reply.
    pub async fn ask(&self, orders: &[OrderId], wait_max: Duration) -> Result<Reply, AskError> {
        debug_assert!(orders.len() <= ORDERS_MAX, "the caller cuts questions");
        self.turn(wait_max).await?;
        let question = serde_json::json!({
            "order_ids": orders.iter().map(OrderId::as_str).collect::<Vec<_>>(),
        });
        let question = question.to_string().into_bytes();
        match self.send(question).await? {
            Reaction::Reply { body, pause } => {
                match pause {
                    Some(named) if !named.is_zero() => {
                        self.pause(named).await?;
                    }
                    _ => metrics::gauge!(RETRY_AFTER_SECONDS).set(0.0),
                }
                let reply = reply::read(&body?, orders, self.livemode)?;
                if reply.foreign > 0 || reply.nameless > 0 {
                    metrics::counter!(STRAY_ENTRIES)
                        .increment((reply.foreign + reply.nameless) as u64);
                    tracing::warn!(
                        foreign = reply.foreign,
                        nameless = reply.nameless,
                        "payment service reply contained entries about other orders; they were ignored"
                    );
                }
                Ok(reply)
            }
            Reaction::NotNow(named) => {
                let pause = self.pause(named.unwrap_or(PAUSE_DEFAULT)).await?;
                Err(AskError::SentAway(pause))
            }
        }
    }

    /// Stops all instances from asking for the time that was named, capped; returns how long that is.
    async fn pause(&self, named: Duration) -> Result<Duration, AskError> {
        metrics::gauge!(RETRY_AFTER_SECONDS).set(named.as_secs_f64());
        let pause = named.min(QUESTIONS_CLOSED_MAX);
        if named > pause {
            tracing::warn!(
                ?named,
                ?pause,
                "payment service asked for too long a pause; it is asked again after an hour"
            );
        } else {
            tracing::warn!(
                ?pause,
                "payment service asked for a pause; it is asked again after that"
            );
        }
        self.store.close_questions(pause).await?;
        Ok(pause)
    }

    /// Sends a question, and once more if the connection was closed before any answer came. Both
    /// attempts share one time limit.
    async fn send(&self, question: Vec<u8>) -> Result<Reaction, AskError> {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let attempt = async |question| {
            let reaction = match &self.transport {
                Transport::Nats(requests) => timeout_at(deadline, requests.send(question)).await,
                Transport::Http(posts) => timeout_at(deadline, posts.send(question)).await,
            };
            reaction.map_err(|_| AskError::Timeout)?
        };
        match attempt(question.clone()).await {
            Err(hung_up @ AskError::HungUp(_)) => {
                tracing::debug!(
                    error = %chain(&hung_up),
                    "question not answered before its connection closed; it is sent once more"
                );
                // The payment service counts it as another question.
                let left = deadline.saturating_duration_since(Instant::now());
                match self.turn(left).await {
                    Ok(()) => attempt(question).await,
                    Err(AskError::NotYet(_)) => Err(hung_up),
                    Err(error) => Err(error),
                }
            }
            other => other,
        }
    }

    /// The payment service at this URL.
    #[cfg(test)]
    pub(crate) fn at(url: &str, store: &Store, spacing: Duration) -> Self {
        // Another test may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            transport: Transport::Http(http::Posts::new(url.parse().unwrap()).unwrap()),
            store: store.clone(),
            spacing,
            livemode: true,
        }
    }

    /// Waits for the turn of a question.
    async fn turn(&self, wait_max: Duration) -> Result<(), AskError> {
        let mut left = wait_max;
        loop {
            match self.store.reserve_question(self.spacing, left).await? {
                Slot::Closed(pause) => return Err(AskError::NotYet(pause)),
                Slot::After(Duration::ZERO) => return Ok(()),
                Slot::After(wait) => {
                    tokio::time::sleep(wait).await;
                    left = left.saturating_sub(wait);
                    // Another instance may have been asked for a pause meanwhile.
                    if self.store.questions_closed_for().await?.is_zero() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// The value of a `Retry-After`: seconds, or a date.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large to parse is capped by the caller.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    // The date is on the service's clock and compared with ours: the header offers nothing better.
    let now = std::time::SystemTime::from(clock::now());
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Describes the metrics, and shows them from the start.
pub fn describe_metrics() {
    metrics::describe_counter!(
        STRAY_ENTRIES,
        "Entries of replies that are about none of the orders in the question"
    );
    metrics::counter!(STRAY_ENTRIES).increment(0);
    metrics::describe_gauge!(
        RETRY_AFTER_SECONDS,
        "The last Retry-After of the payment service, 0 after a reply without one; no question is sent for that \
         time, capped at an hour"
    );
    metrics::gauge!(RETRY_AFTER_SECONDS).set(0.0);
}
