//! The pace of questions: one row for all instances.

use std::time::Duration;

use crate::error::{Error, doing};
use crate::run::{execute, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::{KnownTs, Ts};
use crate::tx::Tx;

/// The name of the row: there is one payment service.
const NAME: &str = "payment-service";

const PACING: &str = "pacing questions";

/// The longest time without questions, whatever the payment service or a clock demands.
pub const QUESTIONS_CLOSED_MAX: Duration = Duration::from_hours(1);

/// When a question may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// It may be asked after this time.
    After(Duration),
    /// Questions are closed for this time, which is longer than the caller would wait.
    Closed(Duration),
}

impl Store {
    /// Reserves the next question, `spacing` after the one before, of any instance. Nothing is
    /// reserved if it could only be asked later than `wait_max`.
    pub async fn reserve_question(
        &self,
        spacing: Duration,
        wait_max: Duration,
    ) -> Result<Slot, Error> {
        self.write("pacing", (spacing, wait_max), reserve).await
    }

    /// Closes questions for the time that the payment service demands, at most [`QUESTIONS_CLOSED_MAX`].
    pub async fn close_questions(&self, pause: Duration) -> Result<(), Error> {
        self.write("pacing", pause, close).await
    }

    /// How much longer questions are closed.
    pub async fn questions_closed_for(&self) -> Result<Duration, Error> {
        self.write("pacing", (), closed_for).await
    }
}

async fn reserve(tx: &mut Tx, (spacing, wait_max): &(Duration, Duration)) -> Result<Slot, Error> {
    let began = tx.now();
    execute!(tx.conn(), sql::pacing::BEGIN, NAME, began).map_err(doing(PACING))?;
    let (next_at, not_before) = pace(tx).await?.ok_or(Error::Raced(PACING))?;
    let at = next_at.max(not_before).max(began);
    let wait = positive(at.0 - began.0);
    if wait > *wait_max {
        return Ok(Slot::Closed(wait));
    }
    let following = at.plus(*spacing);
    execute!(tx.conn(), sql::pacing::RESERVE, NAME, following).map_err(doing(PACING))?;
    Ok(Slot::After(wait))
}

async fn close(tx: &mut Tx, pause: &Duration) -> Result<(), Error> {
    let began = tx.now();
    execute!(tx.conn(), sql::pacing::BEGIN, NAME, began).map_err(doing(PACING))?;
    pace(tx).await?;
    let until = began.plus((*pause).min(QUESTIONS_CLOSED_MAX));
    execute!(tx.conn(), sql::pacing::CLOSE, NAME, until)
        .map(drop)
        .map_err(doing(PACING))
}

async fn closed_for(tx: &mut Tx, (): &()) -> Result<Duration, Error> {
    let now = tx.now();
    let paced = pace(tx).await?;
    Ok(paced.map_or(Duration::ZERO, |(_, not_before)| {
        positive(not_before.0 - now.0)
    }))
}

/// The row, locked: when the next question is free, and until when questions are closed. Times that are too far away are
/// shortened in the row: shortened at each reading, they would never come.
async fn pace(tx: &mut Tx) -> Result<Option<(Ts, Ts)>, Error> {
    let rows = fetch_all!(tx.conn(), (KnownTs, KnownTs), sql::pacing::LOCK, NAME)
        .map_err(doing(PACING))?;
    let Some((KnownTs(next_at), KnownTs(not_before))) = rows.first().copied() else {
        return Ok(None);
    };
    let latest = tx.now().plus(QUESTIONS_CLOSED_MAX);
    if let (Some(next_at), Some(not_before)) = (next_at, not_before)
        && next_at <= latest
        && not_before <= latest
    {
        return Ok(Some((next_at, not_before)));
    }
    // A time that can't be read is put right like one that is too far away: the service may have named it.
    let next_at = next_at.unwrap_or(tx.now());
    let not_before = not_before.unwrap_or(latest);
    tracing::warn!(
        until = %next_at.max(not_before).0,
        "pause of questions to the payment service shortened to an hour; the stored time was damaged or too far away"
    );
    let nearer = (next_at.min(latest), not_before.min(latest));
    execute!(tx.conn(), sql::pacing::SET, NAME, nearer.0, nearer.1).map_err(doing(PACING))?;
    Ok(Some(nearer))
}

fn positive(span: time::Duration) -> Duration {
    span.try_into().unwrap_or(Duration::ZERO)
}
