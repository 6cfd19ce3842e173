//! How much waits to be published.

use crate::conn::Conn;
use crate::error::Error;
use crate::rows::from_row;
use crate::run::fetch_all;
use crate::sql;
use crate::store::{Clock, Store};
use crate::ts::Ts;

/// How many rows of each kind are looked at; a longer backlog shows as this much.
const ROWS_MAX: i64 = 100_000;

/// How much waits to be published.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutboxGauges {
    /// Events that are not published, without those that are set aside for a reason of their own; of a long
    /// backlog its first part.
    pub unpublished: i64,
    /// How long the oldest of them has waited.
    pub oldest_seconds: f64,
    /// Of these, events whose subject the broker doesn't take, and those that wait for an earlier version.
    pub blocked: i64,
    /// Events that are too large for the broker or can't be read.
    pub set_aside: i64,
}

from_row! {
    struct Counted {
        events: i64,
        oldest: Option<Ts>,
    }
}

impl Store {
    /// Counts what waits to be published.
    pub async fn outbox_gauges(&self) -> Result<OutboxGauges, Error> {
        let clock = self.options.clock;
        self.read_by_key("counting unpublished events", clock, count)
            .await
    }
}

async fn count(conn: &mut Conn, clock: &Clock) -> sqlx::Result<OutboxGauges> {
    let mut counted = Vec::new();
    for statement in [
        sql::outbox::COUNT,
        sql::outbox::COUNT_OLD,
        sql::outbox_set_aside::COUNT_BLOCKED,
    ] {
        let rows = fetch_all!(conn, Counted, statement, ROWS_MAX)?;
        counted.extend(rows.into_iter().next());
    }
    let set_aside = fetch_all!(conn, (i64,), sql::outbox_set_aside::COUNT_OTHERS, ROWS_MAX)?;
    let now = match clock {
        Clock::Fixed(at) => vec![(Ts(*at),)],
        Clock::Database => fetch_all!(conn, (Ts,), sql::CLOCK)?,
    };
    let oldest = counted.iter().filter_map(|counted| counted.oldest).min();
    let oldest_seconds = match (now.first(), oldest) {
        (Some((now,)), Some(at)) => (now.0 - at.0).as_seconds_f64().max(0.0),
        _ => 0.0,
    };
    Ok(OutboxGauges {
        unpublished: counted.iter().map(|counted| counted.events).sum(),
        oldest_seconds,
        blocked: counted.last().map_or(0, |counted| counted.events),
        set_aside: set_aside.first().map_or(0, |row| row.0),
    })
}
