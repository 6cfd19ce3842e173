//! Locks whose data stays usable when a holder panicked: each change is complete in itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether or not a holder panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
