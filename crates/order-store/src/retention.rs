//! Deletes old rows: closed dead letters, refusals, runs, idempotency keys. Payments and transitions are kept for ever.

use std::time::Duration;

use crate::error::{Error, doing};
use crate::idempotency::KEYS_KEPT;
use crate::run::execute;
use crate::sql::{self, Sql};
use crate::store::Store;
use crate::tx::Tx;

/// Rows of one transaction: locks stay short, however much there is to delete.
const STEP_ROWS: i64 = 1000;

impl Store {
    /// Deletes what is older than `keep`, and keys after their own time, in bounded steps and at
    /// most `rows_max` rows of a kind; returns how many rows went. Each kind fails for itself.
    pub async fn purge(&self, keep: Duration, rows_max: u64) -> Result<u64, Error> {
        let mut purged = Ok(0);
        for (statement, keep) in [
            (sql::dead_letters::PURGE, keep),
            (sql::refusals::PURGE, keep),
            (sql::runs::PURGE, keep),
            (sql::idempotency_keys::PURGE, KEYS_KEPT),
        ] {
            let of_this = self.purge_kind(statement, keep, rows_max).await;
            purged = match (purged, of_this) {
                (Ok(before), Ok(of_this)) => Ok(before + of_this),
                // The first error is kept.
                (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            };
        }
        purged
    }

    async fn purge_kind(
        &self,
        statement: Sql,
        keep: Duration,
        rows_max: u64,
    ) -> Result<u64, Error> {
        let mut purged = 0;
        while purged < rows_max {
            match self.write("forgetting", (statement, keep), purge).await? {
                0 => break,
                step => purged += step,
            }
        }
        Ok(purged)
    }
}

async fn purge(tx: &mut Tx, (statement, keep): &(Sql, Duration)) -> Result<u64, Error> {
    let before = tx.now().minus(*keep);
    execute!(tx.conn(), statement, before, STEP_ROWS).map_err(doing("deleting old rows"))
}
