//! The machine's clock: for logs and latencies only. What decides is the database's clock.

use time::OffsetDateTime;

/// Now, as this machine sees it.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks; nothing is decided by it"
)]
pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
