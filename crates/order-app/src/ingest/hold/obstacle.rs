//! What holds a message back, and how it is reported.

use std::sync::Arc;

use order_store::Error;

use super::{Entry, Item};
use crate::telemetry::chain;

/// What holds a message back.
#[derive(Debug, Clone)]
pub(crate) enum Obstacle {
    /// A row can't be read. Any number of such messages is tried in one transaction.
    Row(Arc<Error>),
    /// The database refuses the message, or is too slow with it. Of several with the same error,
    /// one is tried at a time.
    Refusal(String),
}

impl Obstacle {
    /// The obstacle behind an error with a single message.
    pub(crate) fn of(error: Error) -> Self {
        match error {
            error @ Error::Inconsistent { .. } => Self::Row(Arc::new(error)),
            error => Self::Refusal(chain(&error)),
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Row(error) => chain(&**error),
            Self::Refusal(words) => words.clone(),
        }
    }

    pub(super) fn log(&self, entry: &Entry) {
        let order_id = match &entry.item {
            Item::Fact(fact) => Some(&fact.content.order_id),
            Item::Letter(_) => None,
        };
        let (table, column, id) = match self {
            Self::Row(error) => match &**error {
                Error::Inconsistent {
                    table, column, id, ..
                } => (Some(*table), Some(*column), Some(id.as_str())),
                _ => (None, None, None),
            },
            Self::Refusal(_) => (None, None, None),
        };
        tracing::error!(
            stream.sequence = entry.message.sequence,
            message.delivered = entry.message.delivered,
            order.id = order_id.map(tracing::field::display),
            row.table = table,
            row.column = column,
            row.id = id,
            error = self.words(),
            "message held back; it is tried again until it can be recorded"
        );
    }
}
