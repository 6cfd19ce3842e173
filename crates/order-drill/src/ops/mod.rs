//! What needs a person: exceptions and dead letters.

mod exceptions;
mod letters;
mod runs;

pub(crate) use exceptions::{exception_name, exceptions, expected_name};
pub(crate) use letters::dead_letters;
pub(crate) use runs::runs;

#[cfg(test)]
pub(crate) use exceptions::compare_exceptions;
#[cfg(test)]
pub(crate) use runs::{FindingView, RunView, compare_runs};

const PAGE: u8 = 200;
/// Small enough that cursors are followed.
const PAGE_SMALL: u8 = 2;
