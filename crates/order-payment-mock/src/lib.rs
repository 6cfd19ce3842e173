//! A payment service for tests: it answers the contract's query over NATS and HTTP, correctly or with scripted faults.
//!
//! A [`Script`] holds what is known of each order and which faults occur. A [`Mock`] answers by it and records in
//! [`Asked`] how it was asked: how often, how fast, and whether a request came before the time that a `Retry-After` had
//! named. It knows the contract's query and nothing else: neither the service that asks nor any plan of payments.

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

pub use answer::{Answer, Entry, Payment};
pub use asked::Asked;
pub use fault::{Fault, RetryAfter};
pub use lines::LineError;
pub use script::Script;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinSet;

use self::desk::Desk;

/// The most orders that a question may name.
pub const ORDERS_MAX: usize = 500;

/// A mock payment service; it answers until it is dropped.
#[derive(Debug)]
pub struct Mock {
    desk: Arc<Desk>,
    tasks: JoinSet<()>,
}

/// The mock can't be reached the way it should be.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use or isn't this machine's.
    #[error("cannot listen on {address} for questions to the payment service; choose a free port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The broker can't be reached or refuses the subscription.
    #[error("cannot answer questions to the payment service on the subject {subject}")]
    Subscribe {
        /// The subject.
        subject: String,
        /// The cause.
        source: async_nats::Error,
    },
}

impl Mock {
    /// A mock that can't be reached yet.
    pub fn new(script: Script) -> Self {
        Self {
            desk: Arc::new(Desk::new(script)),
            tasks: JoinSet::new(),
        }
    }

    /// A mock on an HTTP port of its own, and its URL.
    pub async fn over_http(script: Script) -> Result<(Self, String), Error> {
        let mut mock = Self::new(script);
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let url = mock.serve_http(any_port).await?;
        Ok((mock, url))
    }

    /// A mock on a subject of this broker.
    pub async fn over_nats(script: Script, broker: &str, subject: &str) -> Result<Self, Error> {
        let mut mock = Self::new(script);
        mock.serve_nats(broker, subject).await?;
        Ok(mock)
    }

    /// Also answers over HTTP at this address; returns the URL.
    pub async fn serve_http(&mut self, address: SocketAddr) -> Result<String, Error> {
        let (url, serving) = http::serve(Arc::clone(&self.desk), address)
            .await
            .map_err(|source| Error::Listen { address, source })?;
        self.tasks.spawn(serving);
        Ok(url)
    }

    /// Also answers on a subject of the broker (comma-separated URLs), over a connection of its own.
    pub async fn serve_nats(&mut self, broker: &str, subject: &str) -> Result<(), Error> {
        let serving = nats::serve(Arc::clone(&self.desk), broker, subject)
            .await
            .map_err(|source| Error::Subscribe {
                subject: subject.to_owned(),
                source,
            })?;
        self.tasks.spawn(serving);
        Ok(())
    }

    /// Changes the script from now on.
    pub fn script<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        self.desk.script(change)
    }

    /// How the mock has been asked so far.
    pub fn asked(&self) -> Asked {
        self.desk.asked()
    }

    /// Waits for this many questions. There is no time limit; the caller sets one.
    pub async fn was_asked(&self, questions: u64) {
        self.desk.was_asked(questions).await;
    }

    /// Delays every answer until [`Mock::release`]. The answers are made when the questions come, so they arrive
    /// outdated.
    pub fn hold(&self) {
        self.desk.hold(true);
    }

    /// Sends the delayed answers.
    pub fn release(&self) {
        self.desk.hold(false);
    }
}
