//! The connection to NATS, and the streams and the consumer this service needs there.

mod astray;
mod connect;
mod consumer;
mod credentials;
mod error;
mod fitness;
mod follow;
mod inspect;
mod pulls;
mod reading;
mod reconsume;
mod refusals;
mod renew;
mod renewals;
mod replies;
mod topology;
mod transform;

pub use connect::{ConnectError, Link};
pub(crate) use consumer::ACK_WAIT;
pub use credentials::CredentialsError;
pub use error::{About, TopologyError};
pub use inspect::Inspection;
pub use pulls::Pulls;
pub use reading::{Reading, ReadingError, StoredMessage};
pub use reconsume::{ReconsumeError, Reconsumed};
pub use refusals::Refusals;
pub use replies::{Replies, describe_metrics};
pub use topology::Topology;
