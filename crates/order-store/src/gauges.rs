//! What stands open, counted for the metrics.

use order_fsm::Verdict;

use crate::conn::fetch_all;
use crate::error::{Error, doing};
use crate::sql;
use crate::store::Store;

/// Counts of what needs attention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Open exceptions by verdict; verdicts without one are left out.
    pub exceptions_open: Vec<(Verdict, i64)>,
    /// Open dead letters.
    pub dead_letters_open: i64,
}

impl Store {
    /// Counts what stands open.
    pub async fn gauges(&self) -> Result<Gauges, Error> {
        self.read(|conn| {
            Box::pin(async move {
                let exceptions = fetch_all!(conn, (String, i64), sql::GAUGE_EXCEPTIONS)
                    .map_err(doing("counting exceptions"))?;
                let letters = fetch_all!(conn, (i64,), sql::GAUGE_DEAD_LETTERS)
                    .map_err(doing("counting dead letters"))?;
                // What isn't a verdict is the audit's to find; counting goes on without it.
                let exceptions_open = exceptions
                    .into_iter()
                    .filter_map(|(verdict, count)| Some((verdict.parse().ok()?, count)))
                    .collect();
                let dead_letters_open = letters.first().map_or(0, |row| row.0);
                Ok(Gauges {
                    exceptions_open,
                    dead_letters_open,
                })
            })
        })
        .await
    }
}
