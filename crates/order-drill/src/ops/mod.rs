//! What needs a person: exceptions and dead letters.

mod exceptions;
mod letters;

pub(crate) use exceptions::{exception_name, exceptions, expected_name};
pub(crate) use letters::dead_letters;

#[cfg(test)]
pub(crate) use exceptions::compare_exceptions;

const PAGE: u8 = 200;
/// Small enough that cursors are followed.
const PAGE_SMALL: u8 = 2;
