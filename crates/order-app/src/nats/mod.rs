//! The connection to NATS, and the streams and the consumer this service needs there.

mod astray;
mod connect;
mod fitness;
mod reconsume;
mod topology;

pub use connect::connect;
pub use reconsume::{ReconsumeError, Reconsumed};
pub(crate) use topology::ACK_WAIT;
pub use topology::{Topology, TopologyError};
