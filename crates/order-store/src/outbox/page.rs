//! Reading the outbox from its beginning, page after page.
//!
//! A pass goes up to the last row that was there when it began. What commits later with an earlier place
//! is found by the next pass, and is of other orders: a later version of its order in this pass would
//! have waited for it, and have a place behind the pass's end.

use std::collections::HashMap;

use super::event::{OutboxEvent, Place, Raw};
use super::line;
use crate::conn::Conn;
use crate::error::Error;
use crate::payment_exception::PaymentException;
use crate::rows::{Checked, from_row, sort_out};
use crate::run::{List, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;

/// Where a pass stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxPlace {
    after: i64,
    until: i64,
}

/// The beginning of a pass.
impl Default for OutboxPlace {
    fn default() -> Self {
        Self {
            after: i64::MIN,
            until: i64::MAX,
        }
    }
}

/// How much is read at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSize {
    pub(crate) rows: i64,
    /// The row that reaches this many is the last one.
    pub(crate) events: i64,
}

/// Rows have a bounded size, so this bounds the memory of a page.
const PAGE: PageSize = PageSize {
    rows: 2000,
    events: 2000,
};

/// A part of the outbox, oldest first.
#[derive(Debug, Default)]
pub struct OutboxPage {
    /// The events, in the order in which they are published.
    pub events: Vec<OutboxEvent>,
    /// Where the pass goes on, if it does.
    pub next: Option<OutboxPlace>,
    /// Whether an older version of this service left events of its own, which come first. Known at the
    /// beginning of a pass.
    pub has_old: bool,
    /// The last row's place.
    pub(super) last: Option<i64>,
}

impl Store {
    /// Reads on from a place. Only the holder of the lease acts upon it.
    pub async fn outbox_page(&self, place: OutboxPlace) -> Result<OutboxPage, Error> {
        self.outbox_page_of(place, PAGE).await
    }

    pub(crate) async fn outbox_page_of(
        &self,
        place: OutboxPlace,
        size: PageSize,
    ) -> Result<OutboxPage, Error> {
        self.read_by_key("reading the outbox", (place, size), read)
            .await
    }
}

from_row! {
    struct OutboxRow {
        seq: i64,
        at: Ts,
        content: String,
        last: i64,
        tried: i64,
    }
}

async fn read(
    conn: &mut Conn,
    (place, size): &(OutboxPlace, PageSize),
) -> sqlx::Result<OutboxPage> {
    let rows = fetch_all!(
        conn,
        OutboxRow,
        sql::outbox::PAGE,
        place.after,
        place.until,
        size.rows,
        size.events
    )?;
    // In a statement after the first page of a pass: what is older than a row of the pass is seen.
    let is_first = *place == OutboxPlace::default();
    let has_old = is_first && !fetch_all!(conn, (i64,), sql::outbox::OLD_ROWS)?.is_empty();
    let last = rows.last().map(|row| row.seq);
    let next = rows.last().and_then(|row| {
        let until = place.until.min(row.last);
        (row.seq < until).then_some(OutboxPlace {
            after: row.seq,
            until,
        })
    });
    let raw = rows.into_iter().flat_map(|row| {
        let tried = row.seq <= row.tried;
        let lines: Vec<String> = row.content.lines().map(str::to_owned).collect();
        lines.into_iter().map(move |line| Raw {
            line,
            since: row.at,
            tried,
            place: Place::Outbox { seq: row.seq },
        })
    });
    Ok(OutboxPage {
        events: events(conn, raw.collect()).await?,
        next,
        has_old,
        last,
    })
}

/// Completes events: exceptions are read as they are now.
pub(super) async fn events(conn: &mut Conn, raw: Vec<Raw>) -> sqlx::Result<Vec<OutboxEvent>> {
    let ids: Vec<String> = raw.iter().filter_map(Raw::exception).collect();
    let mut found = exceptions(conn, &ids).await?;
    let missing = |id: &str| Error::Inconsistent {
        table: "outbox",
        column: "content",
        id: line::UNNAMED.to_owned(),
        source: format!("the payment exception {id} is to be published, but doesn't exist").into(),
    };
    let mut exception = |id: &str| match found.get(id) {
        Some(Ok(exception)) => Ok(exception.clone()),
        Some(Err(_)) => found.remove(id).unwrap_or_else(|| Err(missing(id))),
        None => Err(missing(id)),
    };
    Ok(raw
        .into_iter()
        .map(|raw| raw.into_event(&mut exception))
        .collect())
}

/// Exceptions by their ids, each readable or not.
async fn exceptions(
    conn: &mut Conn,
    ids: &[String],
) -> sqlx::Result<HashMap<String, Result<PaymentException, Error>>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = fetch_all!(
        conn,
        Checked<PaymentException>,
        sql::exceptions::OF_IDS,
        List(ids)
    )?;
    let (readable, unreadable) = sort_out(rows);
    let readable = readable
        .into_iter()
        .map(|exception| (exception.id.clone(), Ok(exception)));
    let unreadable = unreadable.into_iter().filter_map(|error| match &error {
        Error::Inconsistent { id, .. } => Some((id.clone(), Err(error))),
        _ => None,
    });
    Ok(readable.chain(unreadable).collect())
}
