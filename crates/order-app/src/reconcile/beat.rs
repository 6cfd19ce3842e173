//! A run's signs of life.

use std::time::Duration;

use order_store::Store;

use super::tally::Tally;
use super::{Failure, LEASE_TTL};
use crate::telemetry::chain;

/// How often a run says that it lives and how far it is.
const BEAT: Duration = Duration::from_secs(5);

/// Renews the lease and writes the counts until the lease is lost.
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
            // If it lasts, the lease runs out and the work fails for the same reason.
            Err(error) => {
                tracing::warn!(error = %chain(&error), "a run could not say that it lives");
            }
        }
    }
}
