//! The broker as an honest publisher sees it: a message is published when its ack has come, and sent again if the ack is lost.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::context::{Context, ContextBuilder, PublishError, PublishErrorKind};
use async_nats::{Client, ConnectOptions};
use tokio::time::{Instant, sleep, timeout};

use crate::api::unreachable;
use crate::{Error, RunOptions};

/// A half-open connection is noticed after two of these.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(100);

/// A connection to the broker.
#[derive(Debug)]
pub(crate) struct Broker<'a> {
    options: &'a RunOptions,
    client: Client,
    context: Context,
}

impl<'a> Broker<'a> {
    /// Connects to the options' broker, and waits until the connection is up.
    pub(crate) async fn connect(
        options: &'a RunOptions,
        patience: Duration,
    ) -> Result<Self, Error> {
        let servers: Vec<&str> = options.nats.split(',').map(str::trim).collect();
        let client = ConnectOptions::new()
            .name("order-drill")
            .retry_on_initial_connect()
            .ping_interval(PING_INTERVAL)
            .connect(servers)
            .await
            .map_err(Error::because(
                "cannot connect to the broker (check --nats)",
            ))?;
        let context = ContextBuilder::new()
            .ack_timeout(ACK_TIMEOUT)
            .timeout(ACK_TIMEOUT)
            .max_ack_inflight(options.in_flight.max(1))
            .build(client.clone());
        let broker = Self {
            options,
            client,
            context,
        };
        timeout(patience, broker.connected())
            .await
            .map_err(unreachable("the broker of --nats", patience))?;
        Ok(broker)
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Publishes until there is an ack; returns how many more copies the broker may have stored.
    ///
    /// There is no message id on purpose: the service must work without the broker's deduplication.
    pub(crate) async fn publish(&self, subject: String, body: Vec<u8>) -> Result<u64, Error> {
        let mut uncertain = 0;
        let mut pause = PAUSE_FIRST;
        loop {
            match self.publish_once(&subject, &body).await {
                Ok(()) => return Ok(uncertain),
                Err(None) => uncertain += 1,
                Err(Some(cause)) if cause.kind() == PublishErrorKind::StreamNotFound => {}
                Err(Some(cause)) => {
                    let what =
                        format!("cannot publish to {subject} (the broker's size limit is too low)");
                    return Err(Error::because(what)(cause));
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            // While disconnected, messages would pile up in the client and arrive as a flood of copies.
            self.connected().await;
        }
    }

    /// An error is a refusal; without a cause, the message may have been stored.
    async fn publish_once(&self, subject: &str, body: &[u8]) -> Result<(), Option<PublishError>> {
        let acked = async {
            let body = body.to_vec().into();
            let ack = self.context.publish(subject.to_owned(), body).await?;
            ack.await.map(drop)
        };
        // While disconnected, the client's queue may be full and then blocks without limit.
        match timeout(ACK_TIMEOUT * 2, acked).await {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(None),
            Ok(Err(error)) => Err(match error.kind() {
                PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::StreamNotFound => {
                    Some(error)
                }
                _ => None,
            }),
        }
    }

    /// How many messages the service's consumer hasn't acked, delivered or not; `None` if the broker can't say.
    pub(crate) async fn unacked(&self) -> Option<u64> {
        let names = &self.options.names;
        let consumer = self
            .context
            .get_consumer_from_stream::<pull::Config, _, _>(&names.consumer, &names.inbound_stream)
            .await
            .ok()?;
        let info = consumer.cached_info();
        Some(info.num_pending + info.num_ack_pending as u64)
    }

    /// Waits until the consumer has acked everything.
    pub(crate) async fn wait_until_acked(&self, show: impl Fn(u64)) -> Result<(), Error> {
        let begun = Instant::now();
        let bound = self.options.settle;
        loop {
            let unacked = self.unacked().await;
            unacked.into_iter().for_each(&show);
            if unacked == Some(0) {
                return Ok(());
            }
            if begun.elapsed() >= bound {
                let names = &self.options.names;
                let consumer = format!(
                    "consumer {} of stream {}",
                    names.consumer, names.inbound_stream
                );
                return Err(Error::new(match unacked {
                    Some(unacked) => format!(
                        "{consumer} still has {unacked} unacked messages after {bound:?}; check the service, or allow \
                         more time with --settle"
                    ),
                    None => format!(
                        "{consumer} was not found within {bound:?}; check --consumer and --inbound-stream"
                    ),
                }));
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
