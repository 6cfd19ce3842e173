//! The stream a test publishes to, with names of its own.

use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::stream::{Config, Stream};
use async_nats::jetstream::{self, Context};
use order_testkit::{Nats, unique_name};

use super::eventually;

/// Names in a broker, and a connection to publish over.
#[derive(Debug, Clone)]
pub(crate) struct Payments {
    pub(crate) server: String,
    pub(crate) stream: String,
    pub(crate) subject: String,
    /// The outbound stream and its prefix; none for the usual names.
    pub(crate) outbound: Option<(String, String)>,
    pub(crate) context: Context,
}

impl Payments {
    /// On the nats-server that all tests share.
    pub(crate) async fn new() -> Self {
        let mut payments = Self::on(Nats::shared().url()).await;
        let prefix = payments.subject.replace("events", "orders");
        payments.outbound = Some((format!("{}_OUT", payments.stream), prefix));
        payments
    }

    /// On a nats-server of the test's own.
    pub(crate) async fn on(server: &str) -> Self {
        Self::with(server, async_nats::ConnectOptions::new()).await
    }

    /// The same, where the test has to log in.
    pub(crate) async fn with(server: &str, options: async_nats::ConnectOptions) -> Self {
        let name = unique_name("pay");
        let options = options.retry_on_initial_connect();
        let client = options.connect(server).await.unwrap();
        Self {
            server: server.to_owned(),
            stream: name.to_uppercase(),
            subject: format!("{name}.events"),
            outbound: None,
            context: jetstream::new(client),
        }
    }

    /// Publishes a body as provider `acme` and waits for its ack.
    pub(crate) async fn publish(&self, body: impl Into<Vec<u8>>) {
        let body: Vec<u8> = body.into();
        let subject = format!("{}.acme", self.subject);
        eventually("a publish ack", async || {
            let sent = self
                .context
                .publish(subject.clone(), body.clone().into())
                .await;
            match sent {
                Ok(ack) => ack.await.ok(),
                Err(_) => None,
            }
        })
        .await;
    }

    /// Publishes bodies in order, with their acks in flight.
    pub(crate) async fn publish_all(&self, bodies: impl IntoIterator<Item = String>) {
        let subject = format!("{}.acme", self.subject);
        let mut acks = Vec::new();
        for body in bodies {
            let sent = self.context.publish(subject.clone(), body.into()).await;
            acks.push(sent.unwrap());
            if acks.len() >= 500 {
                for ack in acks.drain(..) {
                    ack.await.unwrap();
                }
            }
        }
        for ack in acks {
            ack.await.unwrap();
        }
    }

    /// The stream of payment events, made by the test.
    pub(crate) async fn make_stream(&self, change: impl FnOnce(&mut Config)) -> Stream {
        let mut config = Config {
            name: self.stream.clone(),
            subjects: vec![format!("{}.>", self.subject)],
            ..Config::default()
        };
        change(&mut config);
        self.context.create_stream(config).await.unwrap()
    }

    /// Whether the nats-server is at least this version.
    pub(crate) fn since(&self, major: u32, minor: u32) -> bool {
        let version = self.context.client().server_info().version;
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
        (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
    }

    /// The state of the consumer, if it is there.
    pub(crate) async fn consumer(&self) -> Option<Info> {
        let stream = self.context.get_stream_no_info(&self.stream).await.ok()?;
        stream.consumer_info("orderd").await.ok()
    }

    /// Waits until everything is delivered and acked.
    pub(crate) async fn drained(&self) {
        eventually("nothing pending, nothing unacked", async || {
            let info = self.consumer().await?;
            (info.num_pending == 0 && info.num_ack_pending == 0).then_some(())
        })
        .await;
    }
}
