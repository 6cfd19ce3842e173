//! The broker as an honest publisher sees it: nothing counts as published before its ack, and a lost ack is sent again.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::{Context, PublishErrorKind};
use async_nats::{Client, ConnectOptions, ServerAddr};
use tokio::time::{Instant, sleep, timeout};

use crate::{Error, Names, RunOptions};

/// A half-open link is noticed after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);

/// A connection to the broker.
#[derive(Debug, Clone)]
pub struct Broker {
    client: Client,
    context: Context,
}

/// What the service's consumer has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Not delivered yet.
    pub pending: u64,
    /// Delivered and not acked.
    pub unacked: u64,
}

impl Broker {
    /// Connects to the options' broker; a broker that is away is waited for.
    pub async fn connect(options: &RunOptions) -> Result<Self, Error> {
        let servers: Vec<ServerAddr> = options
            .nats
            .split(',')
            .map(|url| url.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(Error::BrokerUrl)?;
        let client = ConnectOptions::new()
            .name("order-drill")
            .retry_on_initial_connect()
            .ping_interval(PING_INTERVAL)
            .connect(servers)
            .await
            .map_err(Error::Connect)?;
        let context = async_nats::jetstream::context::ContextBuilder::new()
            .ack_timeout(ACK_TIMEOUT)
            .timeout(ACK_TIMEOUT)
            .max_ack_inflight(options.in_flight.max(1))
            .build(client.clone());
        Ok(Self { client, context })
    }

    /// Waits until the connection is up.
    pub(crate) async fn reach(&self, url: &str, patience: Duration) -> Result<(), Error> {
        timeout(patience, self.connected())
            .await
            .map_err(|_| Error::Unreachable {
                url: url.to_owned(),
                waited: patience,
                source: None,
            })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Publishes until there is an ack, and says how many more copies the broker may have stored.
    ///
    /// There is no message id on purpose: the service must do without the broker's deduplication.
    pub(crate) async fn publish(&self, subject: String, body: Vec<u8>) -> Result<u64, Error> {
        let mut uncertain = 0;
        let mut pause = PAUSE_FIRST;
        loop {
            match self.publish_once(&subject, &body).await {
                Ok(()) => return Ok(uncertain),
                Err(PublishFailure::Never(source)) => {
                    return Err(Error::Publish { subject, source });
                }
                Err(PublishFailure::Refused) => {}
                Err(PublishFailure::Uncertain) => uncertain += 1,
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            // What is sent meanwhile would pile up in the client and arrive as a flood of copies.
            self.connected().await;
        }
    }

    async fn publish_once(&self, subject: &str, body: &[u8]) -> Result<(), PublishFailure> {
        let acked = async {
            self.context
                .publish(subject.to_owned(), body.to_vec().into())
                .await?
                .await
                .map(|_| ())
        };
        // The client's queue may be full while it is disconnected, and then blocks without limit.
        match timeout(ACK_TIMEOUT * 2, acked).await {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(PublishFailure::Uncertain),
            Ok(Err(error)) => Err(match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => PublishFailure::Never(error),
                PublishErrorKind::StreamNotFound => PublishFailure::Refused,
                _ => PublishFailure::Uncertain,
            }),
        }
    }

    /// What the service's consumer has left to do; nothing if broker, stream or consumer can't be asked.
    pub(crate) async fn backlog(&self, names: &Names) -> Option<Backlog> {
        let consumer = self
            .context
            .get_consumer_from_stream::<pull::Config, _, _>(&names.consumer, &names.inbound_stream)
            .await
            .ok()?;
        let info = consumer.cached_info();
        Some(Backlog {
            pending: info.num_pending,
            unacked: info.num_ack_pending as u64,
        })
    }

    /// Waits until the consumer is idle: nothing to deliver, nothing unacked.
    pub(crate) async fn settle(
        &self,
        names: &Names,
        bound: Duration,
        watch: impl Fn(Backlog),
    ) -> Result<Backlog, Error> {
        let begun = Instant::now();
        loop {
            let backlog = self.backlog(names).await;
            if let Some(backlog) = backlog {
                watch(backlog);
                if backlog.pending == 0 && backlog.unacked == 0 {
                    return Ok(backlog);
                }
            }
            if begun.elapsed() >= bound {
                let state = backlog.map_or_else(
                    || format!("no such consumer on stream {}", names.inbound_stream),
                    |left| format!("{} pending, {} unacked", left.pending, left.unacked),
                );
                let consumer = names.consumer.clone();
                return Err(Error::NotSettled {
                    consumer,
                    waited: bound,
                    state,
                });
            }
            sleep(POLL).await;
        }
    }

    async fn connected(&self) {
        while self.client.connection_state() != State::Connected {
            sleep(POLL).await;
        }
    }
}

enum PublishFailure {
    Never(async_nats::jetstream::context::PublishError),
    Refused,
    Uncertain,
}
