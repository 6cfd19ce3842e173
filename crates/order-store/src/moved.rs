//! Notifications about orders that moved.

use std::fmt::Debug;

/// An order that took a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Which order.
    pub order_id: String,
    /// The version the step led to.
    pub version: i64,
}

/// Is notified of every step that this process committed, right after the commit. A hint, not a record: commits with an
/// unknown outcome aren't notified, and neither are those of other processes.
pub trait Listener: Debug + Send + Sync {
    /// These orders moved. It must not block: commits wait for it.
    fn moved(&self, orders: &[Moved]);
}
