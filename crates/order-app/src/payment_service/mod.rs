//! The payment service, asked: over NATS or over HTTP, at one pace for all instances.
//!
//! It answers questions and decides nothing. What is no definite answer is *unknown* (`reply`);
//! what is no reply at all is an [`AskError`]. Enter at [`PaymentService::ask`].

mod http;
mod nats;
mod reply;
#[cfg(test)]
pub(crate) mod stub;
#[cfg(test)]
mod tests;

use std::time::Duration;

use order_fsm::OrderId;
use order_store::{Slot, Store};

use crate::config::{Config, PaymentQuery};
use crate::nats::ConnectError;

pub use reply::{Answer, Reply, State, Unreadable};

/// Orders of one question at most.
pub const ORDERS_MAX: usize = 500;

/// How long a question waits for its reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a reply at most: 500 orders with a dozen entries each.
const REPLY_MAX: usize = 4 * 1024 * 1024;

/// Nobody is asked for so long if the service is asked too often and doesn't say how long.
const PAUSE_DEFAULT: Duration = Duration::from_secs(1);

/// The longest pause that a time can be reckoned with.
const PAUSE_MAX: Duration = Duration::from_hours(24 * 3650);

/// A question that got no reply that can be read.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody was asked: it would not be this question's turn for so long.
    #[error("the payment service is not to be asked for {0:?}")]
    NotYet(Duration),
    /// It was asked, and answered that it will not be asked again for this time.
    #[error("the payment service is asked too often; it wants to be left alone for {0:?}")]
    SentAway(Duration),
    /// Nobody answered in time.
    #[error("the payment service did not answer within {REPLY_TIMEOUT:?}")]
    Timeout,
    /// The question could not be sent, or its reply not be received.
    #[error("the payment service could not be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It answered with an error.
    #[error("the payment service answered with {0}")]
    Status(String),
    /// The reply is too large.
    #[error("the reply has more than {REPLY_MAX} bytes")]
    TooLarge,
    /// The reply is something else.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The pace of questions could not be kept.
    #[error("the pace of questions is unknown")]
    Store(#[from] order_store::Error),
}

impl AskError {
    /// Whether a question about fewer of these orders may get a reply: one of them may be to
    /// blame, or their number.
    pub fn may_be_for_an_order(&self) -> bool {
        match self {
            Self::Timeout | Self::Status(_) | Self::TooLarge | Self::Unreadable(_) => true,
            Self::NotYet(_) | Self::SentAway(_) | Self::Unreachable(_) | Self::Store(_) => false,
        }
    }
}

/// What a transport brings back.
#[derive(Debug)]
enum Reaction {
    /// The bytes of a reply.
    Reply(Vec<u8>),
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

/// A payment service that can't be asked at all.
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
    /// The payment service of these settings, if there is one. The store keeps the pace.
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
        // A hair slower than allowed: no jitter makes one too many in any second.
        let spacing = Duration::from_secs(1).mul_f64(1.05) / config.reconcile_rate;
        Ok(Some(Self {
            transport,
            store,
            spacing,
            livemode: config.livemode,
        }))
    }

    /// Asks about at most [`ORDERS_MAX`] orders, when it is this question's turn; not at all if
    /// that is later than `wait_max`.
    ///
    /// # Errors
    /// If there is no reply that can be read.
    pub async fn ask(&self, orders: &[OrderId], wait_max: Duration) -> Result<Reply, AskError> {
        debug_assert!(orders.len() <= ORDERS_MAX, "the caller cuts questions");
        self.turn(wait_max).await?;
        let question = serde_json::json!({
            "order_ids": orders.iter().map(OrderId::as_str).collect::<Vec<_>>(),
        });
        let question = question.to_string().into_bytes();
        let reaction = match &self.transport {
            Transport::Nats(requests) => {
                tokio::time::timeout(REPLY_TIMEOUT, requests.send(question)).await
            }
            Transport::Http(posts) => {
                tokio::time::timeout(REPLY_TIMEOUT, posts.send(question)).await
            }
        };
        match reaction.map_err(|_| AskError::Timeout)?? {
            Reaction::Reply(body) => {
                let reply = reply::read(&body, orders, self.livemode)?;
                if reply.foreign > 0 || reply.nameless > 0 {
                    metrics::counter!("orderd_payment_service_stray_entries_total")
                        .increment((reply.foreign + reply.nameless) as u64);
                    tracing::warn!(
                        foreign = reply.foreign,
                        nameless = reply.nameless,
                        "the payment service answered about orders that nobody asked about"
                    );
                }
                Ok(reply)
            }
            Reaction::NotNow(pause) => {
                let pause = pause.unwrap_or(PAUSE_DEFAULT).min(PAUSE_MAX);
                tracing::warn!(?pause, "the payment service is asked too often");
                self.store.close_questions(pause).await?;
                Err(AskError::SentAway(pause))
            }
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
                    // Another instance may have been sent away meanwhile.
                    if self.store.questions_closed_for().await?.is_zero() {
                        return Ok(());
                    }
                }
            }
        }
    }
}
