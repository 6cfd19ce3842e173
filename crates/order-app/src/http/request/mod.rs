//! Requests: their parts, parsed into typed values or refused.

pub(crate) mod actor;
pub(crate) mod body;
pub(crate) mod etag;
pub(crate) mod fields;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod prefer;
pub(crate) mod query;
pub(crate) mod values;
