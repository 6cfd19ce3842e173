//! Renews the lease of a run.

use std::time::Duration;

use order_store::Store;

use super::tally::Tally;
use super::{Failure, LEASE_TTL};
use crate::telemetry::chain;

/// How often the lease is renewed and the counts are recorded.
const BEAT: Duration = Duration::from_secs(5);

/// Renews the lease and records the counts until the lease is lost.
pub(super) async fn beat(store: &Store, run_id: &str, tally: &Tally) -> Failure {
    loop {
        tokio::time::sleep(BEAT).await;
        let counts = tally.counts();
        match store
            .progress_run(run_id.to_owned(), counts, LEASE_TTL)
            .await
        {
            Ok(true) => {}
            Ok(false) => return Failure::LeaseLost,
            // If the fault lasts, the lease expires, and the work fails for the same reason.
            Err(error) => {
                tracing::warn!(
                    error = %chain(&error),
                    "run lease not renewed; it is tried again in 5 s"
                );
            }
        }
    }
}
