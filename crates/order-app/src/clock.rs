//! The machine's clock: for logs, latencies and the expiry of tokens, which must not depend on a
//! database. Everything else is decided by the database's clock.

use time::OffsetDateTime;

/// Now, as this machine sees it.
#[expect(clippy::disallowed_methods, reason = "the one place that asks")]
pub fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}
