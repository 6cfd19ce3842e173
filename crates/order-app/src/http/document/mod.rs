//! The OpenAPI document, except for the descriptions at the operations themselves.

pub(crate) mod examples;
pub(crate) mod openapi;
pub(crate) mod problem_docs;
pub(crate) mod security;
