//! Who wants to know which orders moved.

use std::fmt::Debug;

/// An order that took a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Which order.
    pub order_id: String,
    /// The version the step led to.
    pub version: i64,
}

/// Is told of every step of this process that was committed, right after the commit. A hint and
/// no record: an unknown commit is not told of, nor what other processes do.
pub trait Listener: Debug + Send + Sync {
    /// These orders moved. It must not block: commits wait for it.
    fn moved(&self, orders: &[Moved]);
}
