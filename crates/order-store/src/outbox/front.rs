//! Histories that go before everything else in the outbox.
//!
//! Whole orders, each in the order of its versions. Other events of theirs in the outbox are
//! published after that, as repetitions. Only the holder of the lease writes there.

use crate::error::{Error, doing};
use crate::rows::from_row;
use crate::run::{List, execute, fetch_all};
use crate::sql;
use crate::ts::Ts;
use crate::tx::Tx;

use super::write::rows;

from_row! {
    /// A transition, with its line.
    pub(crate) struct HistoryLine {
        pub(crate) order_id: String,
        pub(crate) version: i64,
        pub(crate) micros: Option<i64>,
        pub(crate) line: String,
    }
}

/// Whose transitions are read.
pub(crate) enum Histories<'a> {
    /// Of these orders, what was not published by an older version of this service.
    OfOrders(&'a [String]),
    /// Of the orders behind the first and up to the second one, what happened since a time.
    Between(&'a str, &'a str, Ts),
}

impl Histories<'_> {
    /// The lines, in the order of orders and versions.
    pub(crate) async fn read(&self, tx: &mut Tx) -> Result<Vec<HistoryLine>, Error> {
        let rows = match self {
            Self::Between(after, until, since) => {
                fetch_all!(
                    tx.conn(),
                    HistoryLine,
                    sql::transitions::LINES_BETWEEN,
                    *after,
                    *until,
                    *since
                )
            }
            Self::OfOrders(ids) => fetch_all!(
                tx.conn(),
                HistoryLine,
                sql::transitions::LINES_OF_ORDERS,
                List(ids)
            ),
        };
        rows.map_err(doing("reading the history of orders"))
    }
}

impl HistoryLine {
    /// Since when it waits, and its line; a time that can't be read is that of the carrying over.
    pub(crate) fn into_event(self, now: Ts) -> (Ts, String) {
        let at = self.micros.and_then(|micros| Ts::from_micros(micros).ok());
        (at.unwrap_or(now), self.line)
    }
}

/// Puts events before all others, in their order.
pub(crate) async fn insert_at_the_front(
    tx: &mut Tx,
    events: Vec<(Ts, String)>,
) -> Result<(), Error> {
    let rows = rows(events);
    if rows.is_empty() {
        return Ok(());
    }
    let front = fetch_all!(tx.conn(), (i64,), sql::outbox::FRONT)
        .map_err(doing("looking for the front of the outbox"))?;
    // Below what the sequence gives out, too.
    let front = front.first().map_or(0, |row| row.0).min(0);
    for (row, seq) in rows.iter().rev().zip(1..) {
        execute!(
            tx.conn(),
            sql::outbox::INSERT_AT,
            front.saturating_sub(seq),
            row.at,
            row.events,
            row.content.as_str()
        )
        .map_err(doing("writing to the front of the outbox"))?;
    }
    Ok(())
}
