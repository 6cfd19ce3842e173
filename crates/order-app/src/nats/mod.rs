//! The connection to NATS, and the streams and the consumer this service needs there.

mod astray;
mod connect;
mod consumer;
mod fitness;
mod reading;
mod reconsume;
mod topology;

pub use connect::{ConnectError, Link, connect};
pub use reading::{Reading, ReadingError, StoredMessage};
pub use reconsume::{ReconsumeError, Reconsumed};
pub(crate) use topology::ACK_WAIT;
pub use topology::{Topology, TopologyError};
