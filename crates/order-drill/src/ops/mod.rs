//! What a person would look at: exceptions, dead letters and runs.

mod exceptions;
mod letters;
mod runs;

pub(crate) use exceptions::{exception_name, exceptions, expected_name};
pub(crate) use letters::dead_letters;
pub(crate) use runs::runs;

#[cfg(test)]
pub(crate) use exceptions::compare_exceptions;
#[cfg(test)]
pub(crate) use runs::compare_runs;
