//! Publishing again from a point in time, and how much waits to be published.

use time::OffsetDateTime;

use crate::conn::{Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::sql::outbox as sql;
use crate::store::{Clock, Store};
use crate::ts::Ts;

/// Rows walked over in one transaction.
const STEP_MAX: i64 = 5_000;

/// Behind every id: ids are ASCII letters, digits and `. _ : -`.
const BEHIND_EVERY_ID: &str = "~";

/// Before and behind every time the edge lets in.
const DISTANT_DAYS: i64 = 800_000;

/// How much of each kind is counted; a longer backlog shows as this much.
const COUNT_MAX: i64 = 100_000;

/// What is marked to be published again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Republished {
    /// Transitions.
    pub transitions: u64,
    /// Exceptions.
    pub exceptions: u64,
}

/// How much waits to be published.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutboxGauges {
    /// Events that are not published; of a long backlog its first part.
    pub unpublished: i64,
    /// How long the oldest of them has waited.
    pub oldest_seconds: f64,
    /// Events that can't be published.
    pub set_aside: i64,
}

impl Store {
    /// Takes the marks off everything since a time, also from what was set aside. In steps, each a
    /// transaction: done again after a failure it does the rest.
    pub async fn republish_since(&self, since: OffsetDateTime) -> Result<Republished, Error> {
        self.republish_in_steps(since, STEP_MAX).await
    }

    pub(crate) async fn republish_in_steps(
        &self,
        since: OffsetDateTime,
        step_max: i64,
    ) -> Result<Republished, Error> {
        let since = Ts::truncated(since);
        let mut done = Republished::default();
        let mut after = Some((String::new(), 0));
        while let Some(start) = after {
            let step = self.write("republishing", move |tx| {
                let start = start.clone();
                Box::pin(async move { transitions_step(tx, start, since, step_max).await })
            });
            let (marked, next) = step.await?;
            done.transitions += marked;
            after = next;
        }
        let mut after = Some((since, String::new()));
        while let Some(start) = after {
            let step = self.write("republishing", move |tx| {
                let start = start.clone();
                Box::pin(async move { exceptions_step(tx, start, step_max).await })
            });
            let (marked, next) = step.await?;
            done.exceptions += marked;
            after = next;
        }
        Ok(done)
    }

    /// Counts what waits to be published.
    pub async fn outbox_gauges(&self) -> Result<OutboxGauges, Error> {
        let clock = self.options.clock;
        self.read(move |conn| {
            Box::pin(async move {
                let counting = || doing("counting unpublished events");
                let unpublished = fetch_all!(conn, (i64,), sql::GAUGE_UNPUBLISHED, COUNT_MAX)
                    .map_err(counting())?;
                let oldest =
                    fetch_all!(conn, (Ts,), sql::GAUGE_UNPUBLISHED_OLDEST).map_err(counting())?;
                let set_aside =
                    fetch_all!(conn, (i64,), sql::GAUGE_SET_ASIDE).map_err(counting())?;
                let now = match clock {
                    Clock::Fixed(at) => vec![(Ts(at),)],
                    Clock::Database => {
                        fetch_all!(conn, (Ts,), crate::sql::CLOCK).map_err(counting())?
                    }
                };
                let oldest_seconds = match (now.first(), oldest.first()) {
                    (Some((now,)), Some((at,))) => (now.0 - at.0).as_seconds_f64().max(0.0),
                    _ => 0.0,
                };
                Ok(OutboxGauges {
                    unpublished: unpublished.first().map_or(0, |row| row.0),
                    oldest_seconds,
                    set_aside: set_aside.first().map_or(0, |row| row.0),
                })
            })
        })
        .await
    }
}

/// One step over the transitions; where the next one starts, if there is one.
async fn transitions_step(
    tx: &mut Tx,
    (order_id, version): (String, i64),
    since: Ts,
    step_max: i64,
) -> Result<(u64, Option<(String, i64)>), Error> {
    let start = order_id.as_str();
    let marking = || doing("marking transitions to be published again");
    let end = fetch_all!(
        tx.conn(),
        (String, i64),
        sql::TRANSITIONS_STEP,
        start,
        version,
        step_max - 1
    )
    .map_err(marking())?
    .pop();
    let (end_id, end_version) = match &end {
        Some((id, version)) => (id.as_str(), *version),
        None => (BEHIND_EVERY_ID, 0),
    };
    let marked = execute!(
        tx.conn(),
        sql::TRANSITIONS_AGAIN,
        start,
        version,
        end_id,
        end_version,
        since
    )
    .map_err(marking())?;
    Ok((marked, end))
}

/// One step over the exceptions; where the next one starts, if there is one.
async fn exceptions_step(
    tx: &mut Tx,
    (opened_at, id): (Ts, String),
    step_max: i64,
) -> Result<(u64, Option<(Ts, String)>), Error> {
    let marking = || doing("marking exceptions to be published again");
    let start = id.as_str();
    let end = fetch_all!(
        tx.conn(),
        (Ts, String),
        sql::EXCEPTIONS_STEP,
        opened_at,
        start,
        step_max - 1
    )
    .map_err(marking())?
    .pop();
    let distant = Ts(OffsetDateTime::UNIX_EPOCH + time::Duration::days(DISTANT_DAYS));
    let (end_at, end_id) = match &end {
        Some((at, id)) => (*at, id.as_str()),
        None => (distant, ""),
    };
    let marked = execute!(
        tx.conn(),
        sql::EXCEPTIONS_AGAIN,
        opened_at,
        start,
        end_at,
        end_id
    )
    .map_err(marking())?;
    Ok((marked, end))
}
