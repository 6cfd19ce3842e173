//! Payment events on the wire, and what a message must contain to be understood.
//!
//! [`decode`] is pure, total and never panics; a message that it doesn't understand has a
//! [`Reason`] of the contract. Used by ingest and by the replay of dead letters.

mod decode;
mod fields;

pub use decode::{BODY_MAX, decode};
pub(crate) use decode::{content, occurred_at, parsed};
pub(crate) use fields::Fields;

/// Why a message was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", reason.as_str())]
pub struct NotUnderstood {
    /// The kind of fault.
    pub reason: Reason,
    /// Which field and why.
    pub detail: String,
}

impl NotUnderstood {
    /// A fault with its detail.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            detail: detail.into(),
        }
    }
}

/// The kinds of faults a message can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The body is not UTF-8.
    InvalidUtf8,
    /// The body is not one JSON value.
    InvalidJson,
    /// A known key appears twice.
    DuplicateKey,
    /// A required field is missing.
    MissingField,
    /// A field, or the body, has another JSON type.
    WrongType,
    /// Not a valid id.
    InvalidId,
    /// Not a valid provider.
    InvalidProvider,
    /// The amount is out of range.
    InvalidAmount,
    /// Not a valid currency.
    InvalidCurrency,
    /// Not a valid time.
    InvalidTime,
    /// The subject names another provider.
    ProviderMismatch,
    /// The type isn't `payment.<kind>`.
    UnsupportedType,
    /// The body is too large.
    TooLarge,
    /// The database refused it.
    RefusedByDatabase,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 14] = [
        Self::InvalidUtf8,
        Self::InvalidJson,
        Self::DuplicateKey,
        Self::MissingField,
        Self::WrongType,
        Self::InvalidId,
        Self::InvalidProvider,
        Self::InvalidAmount,
        Self::InvalidCurrency,
        Self::InvalidTime,
        Self::ProviderMismatch,
        Self::UnsupportedType,
        Self::TooLarge,
        Self::RefusedByDatabase,
    ];

    /// The name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid-utf8",
            Self::InvalidJson => "invalid-json",
            Self::DuplicateKey => "duplicate-key",
            Self::MissingField => "missing-field",
            Self::WrongType => "wrong-type",
            Self::InvalidId => "invalid-id",
            Self::InvalidProvider => "invalid-provider",
            Self::InvalidAmount => "invalid-amount",
            Self::InvalidCurrency => "invalid-currency",
            Self::InvalidTime => "invalid-time",
            Self::ProviderMismatch => "provider-mismatch",
            Self::UnsupportedType => "unsupported-type",
            Self::TooLarge => "too-large",
            Self::RefusedByDatabase => "refused-by-database",
        }
    }
}

#[cfg(test)]
mod tests;
