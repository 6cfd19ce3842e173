//! The server around the operations: connections, limits, deadlines, access, layers.

pub(crate) mod access;
pub(crate) mod browser;
pub(crate) mod carry_out;
pub(crate) mod deadline;
pub(crate) mod docs;
mod drain;
pub(crate) mod idempotency;
pub(crate) mod layers;
pub(crate) mod measure;
pub(crate) mod page;
pub(crate) mod patient;
pub(crate) mod peer;
pub(crate) mod rate;
pub(crate) mod serve;
pub(crate) mod session;
