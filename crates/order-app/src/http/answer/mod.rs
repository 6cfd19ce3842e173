//! What goes out: answers and problems as they are on the wire.

pub(crate) mod cursor;
pub(crate) mod error;
pub(crate) mod field_error;
pub(crate) mod page;
pub(crate) mod probe;
pub(crate) mod problem;
pub(crate) mod write;
