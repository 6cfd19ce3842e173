//! Counts of open exceptions and dead letters, for the metrics.

use order_fsm::Verdict;

use crate::conn::Conn;
use crate::error::Error;
use crate::run::{fetch_all, json};
use crate::sql;
use crate::store::Store;

/// How many of each are counted: a count is taken every other second, and must cost the same however
/// much stands open.
pub const OPEN_COUNTED_MAX: i64 = 10_000;

/// Counts of what needs attention, each up to [`OPEN_COUNTED_MAX`].
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
        self.open_up_to(OPEN_COUNTED_MAX).await
    }

    pub(crate) async fn open_up_to(&self, max: i64) -> Result<Gauges, Error> {
        self.read("counting what stands open", max, count).await
    }
}

async fn count(conn: &mut Conn, max: &i64) -> sqlx::Result<Gauges> {
    let verdicts = Verdict::ALL.into_iter().filter(|v| v.can_be_exception());
    let verdicts = json(verdicts.map(Verdict::as_str));
    let exceptions = fetch_all!(
        conn,
        (String, i64),
        sql::exceptions::COUNT_OPEN,
        verdicts.as_str(),
        *max
    )?;
    let letters = fetch_all!(conn, (i64,), sql::dead_letters::COUNT_OPEN, *max)?;
    Ok(Gauges {
        exceptions_open: exceptions
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .filter_map(|(verdict, count)| Some((verdict.parse().ok()?, count)))
            .collect(),
        dead_letters_open: letters.first().map_or(0, |row| row.0),
    })
}
