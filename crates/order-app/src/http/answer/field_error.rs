//! An error in a request: where it is, and what is wrong.

use serde::Serialize;
use utoipa::ToSchema;

/// An error in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// Where: a JSON pointer into the body (`/amount`; empty for the body as a whole), `?name` for
    /// a query parameter, `{name}` for a part of the path, the name of a header.
    #[schema(examples("/amount", "?limit", "{order_id}"))]
    pub(crate) pointer: String,
    /// What is wrong with it.
    pub(crate) detail: String,
}

impl FieldError {
    pub(crate) fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            detail: detail.into(),
        }
    }
}
