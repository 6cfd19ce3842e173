//! How far a drill is. The drill counts; printing is up to the caller.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is being done, with its counts; can be printed at any time.
#[derive(Debug, Default)]
pub struct Progress(Mutex<State>);

#[derive(Debug, Default, Clone, Copy)]
struct State {
    doing: &'static str,
    done: u64,
    total: u64,
    left: Option<u64>,
}

impl Progress {
    /// Begins to count anew; `doing` continues the sentence "the deadline passed while …".
    pub(crate) fn enter(&self, doing: &'static str, total: u64) {
        *self.lock() = State {
            doing,
            total,
            ..State::default()
        };
    }

    pub(crate) fn advance(&self) {
        self.lock().done += 1;
    }

    /// What is left of a total that isn't known.
    pub(crate) fn left(&self, left: u64) {
        self.lock().left = Some(left);
    }

    pub(crate) fn doing(&self) -> &'static str {
        self.lock().doing
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State {
            doing,
            done,
            total,
            left,
        } = *self.lock();
        match left {
            Some(left) => write!(f, "{doing}: {left} left"),
            None if total == 0 => f.write_str(doing),
            None => write!(f, "{doing}: {done} of {total}"),
        }
    }
}
