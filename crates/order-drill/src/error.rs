//! Why a drill could not be carried out. That the service is wrong is a difference, not an error.

use std::time::Duration;

/// A drill that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has a value that can't be drilled.
    #[error("--{option} {allowed}")]
    Option {
        /// Its name on the command line.
        option: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
    /// No HTTP client could be built.
    #[error("cannot build the HTTP client")]
    HttpClient(#[source] reqwest::Error),
    /// Nobody answered at the base URL.
    #[error("no answer from {url} within {waited:?}")]
    Unreachable {
        /// The base URL.
        url: String,
        /// How long it was tried.
        waited: Duration,
        /// The last failure, unless it was an answer that asks to come back later.
        source: Option<reqwest::Error>,
    },
    /// The token is missing, wrong or lacks a scope.
    #[error("{url} answered {status}: --token is missing or lacks a scope")]
    Forbidden {
        /// What was asked.
        url: String,
        /// The answer.
        status: u16,
    },
    /// An endpoint that the chosen options need doesn't answer as it must.
    #[error("{path} answered {status}")]
    Endpoint {
        /// What was asked, with its method.
        path: String,
        /// The answer.
        status: u16,
    },
    /// A run was started and asked nobody.
    #[error("no question to the payment service within {waited:?}")]
    NotAsked {
        /// How long was waited.
        waited: Duration,
    },
    /// The broker's URLs can't be read or the broker refuses.
    #[error("cannot connect to the broker")]
    Connect(#[source] async_nats::ConnectError),
    /// A broker URL can't be read.
    #[error("cannot read the broker URL")]
    BrokerUrl(#[source] std::io::Error),
    /// A message that the broker will never take.
    #[error("cannot publish to {subject}")]
    Publish {
        /// Where to.
        subject: String,
        /// Why not.
        source: async_nats::jetstream::context::PublishError,
    },
    /// The consumer was still busy, or not there, when its time was over.
    #[error("consumer {consumer} is not idle after {waited:?}: {state}")]
    NotSettled {
        /// Its name.
        consumer: String,
        /// How long was waited.
        waited: Duration,
        /// What is left to do, as last seen.
        state: String,
    },
    /// The drill can't be the payment service.
    #[error("cannot be the payment service")]
    PaymentService(#[source] crate::payment_service::Error),
    /// The outbound stream can't be read.
    #[error("cannot read the stream {stream}")]
    Outbound {
        /// Its name.
        stream: String,
        /// Why not.
        source: async_nats::Error,
    },
    /// The overall deadline was over.
    #[error("the deadline of {after:?} was over while {doing}")]
    Deadline {
        /// What was being done.
        doing: &'static str,
        /// The deadline.
        after: Duration,
    },
}
