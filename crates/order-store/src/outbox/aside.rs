//! Events that can't be published now: each by itself, with those that wait for it.

use std::collections::HashSet;

use super::event::{OutboxEvent, Place, Raw};
use super::fate::{AsideKind, Fate};
use super::page::events;
use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::rows::from_row;
use crate::run::{List, execute_rows, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;
use crate::tx::Tx;

/// How many events are read at once to be tried again.
const PAGE_ROWS: u32 = 1000;

/// Where a walk through the events that are set aside stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AsidePlace {
    name: String,
}

impl Store {
    /// Whether anything is set aside.
    pub async fn is_any_set_aside(&self) -> Result<bool, Error> {
        self.read_by_key("looking for events that are set aside", (), is_any)
            .await
    }

    /// Of these orders, those of which an event is set aside.
    pub async fn orders_set_aside(&self, orders: Vec<String>) -> Result<HashSet<String>, Error> {
        self.read_by_key(
            "looking for orders that are set aside",
            (orders,),
            orders_of,
        )
        .await
    }

    /// Events that are set aside, from a place on: whole orders, each in the order of its versions.
    pub async fn set_aside_page(
        &self,
        place: AsidePlace,
    ) -> Result<(Vec<OutboxEvent>, Option<AsidePlace>), Error> {
        self.set_aside_page_of(place, PAGE_ROWS).await
    }

    pub(crate) async fn set_aside_page_of(
        &self,
        place: AsidePlace,
        rows_max: u32,
    ) -> Result<(Vec<OutboxEvent>, Option<AsidePlace>), Error> {
        let args = (place, rows_max);
        self.read_by_key("reading events that are set aside", args, page)
            .await
    }

    /// One event that is set aside because its subject was blocked, if there is one: to try that subject.
    pub async fn blocked_event(&self, event: &'static str) -> Result<Option<OutboxEvent>, Error> {
        self.read_by_key("reading an event that is set aside", event, blocked)
            .await
    }
}

async fn is_any(conn: &mut Conn, (): &()) -> sqlx::Result<bool> {
    let rows = fetch_all!(conn, (i64,), sql::outbox_set_aside::ANY)?;
    Ok(!rows.is_empty())
}

async fn orders_of(conn: &mut Conn, (orders,): &(Vec<String>,)) -> sqlx::Result<HashSet<String>> {
    let rows = fetch_all!(conn, (String,), sql::outbox_set_aside::ORDERS, List(orders))?;
    Ok(rows.into_iter().map(|(name,)| name).collect())
}

async fn page(
    conn: &mut Conn,
    (place, rows_max): &(AsidePlace, u32),
) -> sqlx::Result<(Vec<OutboxEvent>, Option<AsidePlace>)> {
    let mut rows = fetch_all!(
        conn,
        AsideRow,
        sql::outbox_set_aside::PAGE,
        place.name.as_str(),
        i64::from(*rows_max)
    )?;
    let mut next = None;
    if rows.len() == *rows_max as usize {
        // The last order may go on behind the page; one that fills a page of its own is cut.
        let last = rows.last().map(|row| row.name.clone());
        let first_of_last = rows.iter().position(|row| Some(&row.name) == last.as_ref());
        match first_of_last {
            Some(cut) if cut > 0 => rows.truncate(cut),
            _ => {}
        }
        next = rows.last().map(|row| AsidePlace {
            name: row.name.clone(),
        });
    }
    let raw = rows.into_iter().map(AsideRow::into_raw).collect();
    Ok((events(conn, raw).await?, next))
}

async fn blocked(conn: &mut Conn, event: &&'static str) -> sqlx::Result<Option<OutboxEvent>> {
    let kind = AsideKind::Blocked.as_str();
    let rows = fetch_all!(conn, AsideRow, sql::outbox_set_aside::ONE, kind, *event)?;
    let raw = rows.into_iter().map(AsideRow::into_raw).collect();
    Ok(events(conn, raw).await?.pop())
}

from_row! {
    struct AsideRow {
        name: String,
        version: i64,
        kind: String,
        tried: bool,
        at: Ts,
        line: String,
    }
}

impl AsideRow {
    fn into_raw(self) -> Raw {
        Raw {
            line: self.line,
            since: self.at,
            tried: self.tried,
            place: Place::Aside {
                name: self.name,
                version: self.version,
                kind: self.kind,
            },
        }
    }
}

/// Takes in what is set aside now, and lets go of what was published.
pub(super) async fn conclude(
    tx: &mut Tx,
    all: &[OutboxEvent],
    fates: &[Fate],
) -> Result<(), Error> {
    let mut published = Vec::new();
    let mut set_aside = Vec::new();
    for (number, (event, fate)) in all.iter().zip(fates).enumerate() {
        match (fate, &event.place) {
            (Fate::Published, Place::Aside { name, version, .. }) => {
                published.push((name.as_str(), *version));
            }
            // Tried again, and nothing has changed.
            (Fate::SetAside { kind, .. }, Place::Aside { kind: was, .. })
                if kind.as_str() == was => {}
            (
                Fate::SetAside {
                    kind,
                    event: label,
                    why,
                    tried,
                },
                _,
            ) => {
                let (name, version) = event.name(number);
                set_aside.push(NewAside {
                    name,
                    version,
                    event: label,
                    kind: *kind,
                    why,
                    tried: *tried || event.tried,
                    at: event.since,
                    line: &event.line,
                });
            }
            (Fate::Published, Place::Outbox { .. }) | (Fate::Kept, _) => {}
        }
    }
    forget(tx, &published).await?;
    insert(tx, set_aside).await
}

struct NewAside<'a> {
    name: String,
    version: i64,
    event: &'static str,
    kind: AsideKind,
    why: &'a str,
    tried: bool,
    at: Ts,
    line: &'a str,
}

/// An event that is set aside already gets the new reason.
async fn insert(tx: &mut Tx, mut rows: Vec<NewAside<'_>>) -> Result<(), Error> {
    // An event that came twice is one row; the same key twice in one statement would be an error.
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert((row.name.clone(), row.version)));
    if rows.is_empty() {
        return Ok(());
    }
    execute_rows!(tx.conn(), sql::outbox_set_aside::INSERT, rows, |row| [
        row.name.as_str(),
        row.version,
        row.event,
        row.kind.as_str(),
        row.why,
        row.tried,
        row.at,
        row.line,
    ],)
    .map(drop)
    .map_err(doing("setting events aside"))
}

async fn forget(tx: &mut Tx, keys: &[(&str, i64)]) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    execute_rows!(tx.conn(), sql::outbox_set_aside::DELETE, keys, |key| [
        key.0, key.1
    ],)
    .map(drop)
    .map_err(doing("deleting events that were set aside"))
}
