//! What may be forgotten: closed dead letters, refusals and runs. Payments and transitions are for ever.

use std::time::Duration;

use crate::conn::{Sql, execute};
use crate::error::{Error, doing};
use crate::sql::ops as sql;
use crate::sql::reconcile::RUNS_PURGE;
use crate::store::Store;
use crate::ts::Ts;

/// Rows of one transaction: short locks, whatever there is to forget.
const STEP_ROWS: i64 = 1000;

impl Store {
    /// Forgets what is older than `keep`, in bounded steps and at most `rows_max` rows of a kind;
    /// returns how many rows went.
    pub async fn purge(&self, keep: Duration, rows_max: u64) -> Result<u64, Error> {
        let mut purged = 0;
        for statement in [sql::DEAD_LETTERS_PURGE, sql::REFUSALS_PURGE, RUNS_PURGE] {
            let mut of_this = 0;
            while of_this < rows_max {
                let step = self.purge_step(statement, keep).await?;
                of_this += step;
                if step == 0 {
                    break;
                }
            }
            purged += of_this;
        }
        Ok(purged)
    }

    async fn purge_step(&self, statement: Sql, keep: Duration) -> Result<u64, Error> {
        self.write("forgetting", move |tx| {
            Box::pin(async move {
                let before = Ts(tx.now().0 - keep);
                execute!(tx.conn(), statement, before, STEP_ROWS).map_err(doing("forgetting"))
            })
        })
        .await
    }
}
