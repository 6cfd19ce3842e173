//! The pace of questions: one row for all instances.

use std::time::Duration;

use time::OffsetDateTime;

use crate::conn::{execute, fetch_all};
use crate::error::{Error, doing};
use crate::sql::reconcile as sql;
use crate::store::Store;
use crate::ts::Ts;

/// Whose pace it is: the one payment service.
const NAME: &str = "payment-service";

/// Room for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// It may be asked after this time.
    After(Duration),
    /// Nobody may ask for this time, longer than the caller would wait.
    Closed(Duration),
}

impl Store {
    /// Reserves the next question, `spacing` after the one before, whoever asked that. Nothing is
    /// reserved if it could only be asked later than `wait_max`.
    pub async fn reserve_question(
        &self,
        spacing: Duration,
        wait_max: Duration,
    ) -> Result<Slot, Error> {
        self.write("pacing", move |tx| {
            Box::pin(async move {
                let began = tx.now();
                execute!(tx.conn(), sql::PACE_BEGIN, NAME, began)
                    .map_err(doing("pacing questions"))?;
                let rows = fetch_all!(tx.conn(), (Ts, Ts), sql::PACE_LOCK, NAME)
                    .map_err(doing("pacing questions"))?;
                let (next_at, not_before) = rows
                    .first()
                    .copied()
                    .ok_or(Error::Raced("pacing questions"))?;
                let at = next_at.max(not_before).max(began);
                let wait = positive(at.0 - began.0);
                if wait > wait_max {
                    return Ok(Slot::Closed(wait));
                }
                let following = Ts(at.0 + spacing);
                execute!(tx.conn(), sql::PACE_RESERVE, NAME, following)
                    .map_err(doing("pacing questions"))?;
                Ok(Slot::After(wait))
            })
        })
        .await
    }

    /// Lets nobody ask for this time: the payment service said so.
    pub async fn close_questions(&self, pause: Duration) -> Result<(), Error> {
        self.write("pacing", move |tx| {
            Box::pin(async move {
                let began = tx.now();
                execute!(tx.conn(), sql::PACE_BEGIN, NAME, began)
                    .map_err(doing("pacing questions"))?;
                let until = Ts(began.0 + pause);
                execute!(tx.conn(), sql::PACE_CLOSE, NAME, until)
                    .map(drop)
                    .map_err(doing("pacing questions"))
            })
        })
        .await
    }

    /// How much longer nobody may ask because the payment service said so.
    pub async fn questions_closed_for(&self) -> Result<Duration, Error> {
        self.write("pacing", move |tx| {
            Box::pin(async move {
                let now: OffsetDateTime = tx.now().0;
                let rows = fetch_all!(tx.conn(), (Ts, Ts), sql::PACE_LOCK, NAME)
                    .map_err(doing("pacing questions"))?;
                Ok(rows.first().map_or(Duration::ZERO, |(_, not_before)| {
                    positive(not_before.0 - now)
                }))
            })
        })
        .await
    }
}

fn positive(span: time::Duration) -> Duration {
    span.try_into().unwrap_or(Duration::ZERO)
}
