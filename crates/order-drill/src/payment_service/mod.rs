//! A payment service for tests: answers the query of the contract over NATS and HTTP, rightly or in a scripted wrong way.
//!
//! A [`Script`] says what is known of each order and what goes wrong; a [`Mock`] answers by it and writes down in [`Asked`]
//! how it was asked: how much, how fast, and whether anybody came back before the time it had named.

mod answer;
mod asked;
mod desk;
mod fault;
mod http;
mod lines;
mod nats;
mod script;
#[cfg(test)]
mod tests;
mod truth;

pub use answer::{Answer, Entry, Payment};
pub use asked::Asked;
pub use fault::{Fault, RetryAfter};
pub use lines::LineError;
pub use script::Script;
pub use truth::Truth;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinSet;

use self::desk::Desk;

/// The most orders a question may name.
pub const ORDERS_MAX: usize = 500;

/// A mock payment service; it answers until it is dropped.
#[derive(Debug)]
pub struct Mock {
    desk: Arc<Desk>,
    tasks: JoinSet<()>,
}

/// The service could not begin to answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The broker's URLs can't be read.
    #[error("cannot read the broker URL")]
    BrokerUrl(#[source] std::io::Error),
    /// The broker refuses.
    #[error("cannot connect to the broker")]
    Connect(#[source] async_nats::ConnectError),
    /// The subject can't be subscribed to.
    #[error("cannot subscribe to {subject}")]
    Subscribe {
        /// The subject.
        subject: String,
        /// Why not.
        source: async_nats::Error,
    },
}

impl Mock {
    /// A mock that nobody can reach yet.
    pub fn new(script: Script) -> Self {
        Self {
            desk: Arc::new(Desk::new(script)),
            tasks: JoinSet::new(),
        }
    }

    /// A mock behind an HTTP port of its own, and its URL.
    pub async fn over_http(script: Script) -> Result<(Self, String), Error> {
        let mut mock = Self::new(script);
        let url = mock
            .serve_http(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await?;
        Ok((mock, url))
    }

    /// A mock on a subject of this broker.
    pub async fn over_nats(script: Script, broker: &str, subject: &str) -> Result<Self, Error> {
        let mut mock = Self::new(script);
        mock.serve_nats(broker, subject).await?;
        Ok(mock)
    }

    /// Answers over HTTP, too; says under which URL.
    pub async fn serve_http(&mut self, address: SocketAddr) -> Result<String, Error> {
        let (url, serving) = http::serve(Arc::clone(&self.desk), address).await?;
        self.tasks.spawn(serving);
        Ok(url)
    }

    /// Answers on a subject, too, over a connection of its own; comma-separated URLs.
    pub async fn serve_nats(&mut self, broker: &str, subject: &str) -> Result<(), Error> {
        let serving = nats::serve(Arc::clone(&self.desk), broker, subject).await?;
        self.tasks.spawn(serving);
        Ok(())
    }

    /// Changes what it answers from now on.
    pub fn script<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        self.desk.script(change)
    }

    /// How it was asked so far.
    pub fn asked(&self) -> Asked {
        self.desk.asked()
    }

    /// Waits until it was asked so often; without a bound, which is the caller's to set.
    pub async fn was_asked(&self, questions: u64) {
        self.desk.was_asked(questions).await;
    }

    /// Keeps every answer back, made up as it is, until [`Mock::release`]: what is known now arrives late.
    pub fn hold(&self) {
        self.desk.hold(true);
    }

    /// Sends the answers kept back.
    pub fn release(&self) {
        self.desk.hold(false);
    }
}
