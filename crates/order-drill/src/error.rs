//! Why a drill could not be carried out. A wrong service is a difference, not an error.

use std::error::Error as StdError;

/// A drill that could not be carried out. No caller acts on its kind, so it is a text with a cause.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    /// Turns a cause into an error about `what`.
    pub(crate) fn because<E>(what: impl Into<String>) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let what = what.into();
        |cause| Self {
            what,
            source: Some(cause.into()),
        }
    }
}
