//! Named points at which a test lets the process die.
//!
//! Without the feature `crash-points` a point is nothing. With it, a process started with
//! `CRASH_POINT=<name>` aborts where it first comes to that point, as a crash would end it.

#[cfg(all(feature = "crash-points", not(debug_assertions)))]
compile_error!("crash-points is for tests; a release must not have them");

/// Aborts the process here if `CRASH_POINT` names this point.
#[cfg(feature = "crash-points")]
pub fn point(name: &str) {
    use std::sync::OnceLock;

    static WANTED: OnceLock<Option<String>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| std::env::var("CRASH_POINT").ok());
    if wanted.as_deref() == Some(name) {
        std::process::abort();
    }
}

/// Aborts the process here if `CRASH_POINT` names this point.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub fn point(_name: &str) {}

/// A point of something that is done in several places.
#[cfg(feature = "crash-points")]
pub(crate) fn point_of(doing: &str, place: &str) {
    point(&format!("{doing}:{place}"));
}

/// A point of something that is done in several places.
#[cfg(not(feature = "crash-points"))]
#[inline]
pub(crate) fn point_of(_doing: &str, _place: &str) {}
