//! The origin of a change, and the service's own name as an actor.

use crate::words::words;

/// The actor in a history when the service itself acted.
pub const SELF_ACTOR: &str = "orderd";

words! {
    /// Which way a fact or an operation came in.
    pub enum Source, "event, reconciliation or api" {
        /// A payment event from the broker.
        Event = "event",
        /// An answer of the payment service.
        Reconciliation = "reconciliation",
        /// A caller of the API.
        Api = "api",
    }
}
