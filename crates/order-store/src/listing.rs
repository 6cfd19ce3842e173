//! Orders across: the list, and the versions of many.

use order_fsm::OrderStatus;
use sqlx::{ColumnIndex, Decode, FromRow, Type};
use time::OffsetDateTime;

use crate::conn::Conn;
use crate::error::Error;
use crate::orders::Order;
use crate::page::{self, Listed, Page, Place};
use crate::rows::{Checked, sort_out};
use crate::run::{List, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::{Bound, Ts};

/// How many orders are looked at for one page of a status: they are found by their creation, and
/// those of a status may be far apart.
const LOOKED_AT_MAX: u32 = 5000;

/// After every order there may be.
const LAST: OffsetDateTime = time::macros::datetime!(9999-12-31 23:59:59.999999 UTC);

/// Which orders to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderFilter {
    /// Only in this status.
    pub status: Option<OrderStatus>,
    /// Only created at this time or later.
    pub created_after: Option<OffsetDateTime>,
    /// Only created before this time.
    pub created_before: Option<OffsetDateTime>,
}

/// Where a page of orders ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderCursor {
    /// The order's creation.
    pub created_at: OffsetDateTime,
    /// Its id.
    pub order_id: String,
}

/// A page of orders.
pub type OrderPage = Page<Order, OrderCursor>;

impl Listed for Order {
    type Cursor = OrderCursor;

    fn cursor(&self) -> OrderCursor {
        OrderCursor {
            created_at: self.created_at,
            order_id: self.order_id.to_string(),
        }
    }
}

impl Store {
    /// A page of orders, oldest first. With a status it may be short or empty and yet not the
    /// last.
    pub async fn list_orders(
        &self,
        filter: OrderFilter,
        from: Place<OrderCursor>,
        limit: u32,
    ) -> Result<OrderPage, Error> {
        let read = self.read("listing orders", (filter, from, limit), page);
        Ok(self.noting(read.await?))
    }

    /// Orders whose ids begin with a text, in the order of their ids. Unreadable ones are left out.
    pub async fn orders_with_prefix(
        &self,
        prefix: String,
        limit: u32,
    ) -> Result<Vec<Order>, Error> {
        let read = self.read("looking for orders", (prefix, limit), with_prefix);
        let (orders, unreadable) = sort_out(read.await?);
        self.note_unreadable(&unreadable);
        Ok(orders)
    }

    /// The versions of orders, as far as they exist.
    pub async fn order_versions(
        &self,
        order_ids: Vec<String>,
    ) -> Result<Vec<(String, i64)>, Error> {
        self.read("reading the versions of orders", (order_ids,), versions)
            .await
    }
}

async fn page(
    conn: &mut Conn,
    (filter, from, limit): &(OrderFilter, Place<OrderCursor>, u32),
) -> sqlx::Result<(OrderPage, Vec<Error>)> {
    let range = Range::of(filter, from.after.as_ref());
    match filter.status {
        None => list(conn, &range, from, *limit).await,
        Some(status) => in_status(conn, &range, status, from, *limit).await,
    }
}

/// Sorts after every character of an id: all of them are ASCII.
const BEHIND_EVERY_ID: char = '\u{7f}';

async fn with_prefix(
    conn: &mut Conn,
    (prefix, limit): &(String, u32),
) -> sqlx::Result<Vec<Checked<Order>>> {
    fetch_all!(
        conn,
        Checked<Order>,
        sql::orders::BETWEEN,
        prefix.as_str(),
        format!("{prefix}{BEHIND_EVERY_ID}"),
        i64::from(*limit),
    )
}

async fn versions(
    conn: &mut Conn,
    (order_ids,): &(Vec<String>,),
) -> sqlx::Result<Vec<(String, i64)>> {
    fetch_all!(conn, (String, i64), sql::orders::VERSIONS, List(order_ids))
}

/// What a page is cut out of: orders behind a place, up to a time.
struct Range {
    after: (Bound, String),
    until: Bound,
}

impl Range {
    fn of(filter: &OrderFilter, after: Option<&OrderCursor>) -> Self {
        // No id is empty, so that the orders of this very time come after it.
        let start = filter
            .created_after
            .map_or(Bound::START, |at| ceiled(at).0.into());
        let start = (start, String::new());
        let after = after.map(|after| (after.created_at.into(), after.order_id.clone()));
        Self {
            // A cursor of a page that began there is never before it.
            after: after.map_or_else(|| start.clone(), |after| after.max(start.clone())),
            until: filter
                .created_before
                .map_or(Bound::END, |at| Bound::before(ceiled(at))),
        }
    }
}

/// Orders are created at whole microseconds: at or after a time between two is at or after the
/// second of them, and before it is before that one.
fn ceiled(at: OffsetDateTime) -> Ts {
    let floor = Ts::truncated(at);
    if floor.0 == at {
        floor
    } else {
        // There is no microsecond after the last one, and no order either.
        let next = floor.0.checked_add(time::Duration::MICROSECOND);
        Ts(next.unwrap_or(LAST))
    }
}

async fn list(
    conn: &mut Conn,
    range: &Range,
    from: &Place<OrderCursor>,
    limit: u32,
) -> sqlx::Result<(OrderPage, Vec<Error>)> {
    let rows = fetch_all!(
        conn,
        Checked<Order>,
        sql::orders::LIST,
        range.after.0,
        range.after.1.as_str(),
        range.until,
        page::fetch(limit),
        i64::from(from.passed),
    )?;
    Ok(page::page(rows, from, limit))
}

/// Here a place counts all orders behind its item that were looked at, readable or not, in the
/// status or not: the order that ends a look may be one that can't be read.
async fn in_status(
    conn: &mut Conn,
    range: &Range,
    status: OrderStatus,
    from: &Place<OrderCursor>,
    limit: u32,
) -> sqlx::Result<(OrderPage, Vec<Error>)> {
    let looked_at_max = i64::from(LOOKED_AT_MAX.max(limit));
    let mut rows = fetch_all!(
        conn,
        PlacedRow,
        sql::orders::IN_STATUS,
        range.after.0,
        range.after.1.as_str(),
        range.until,
        looked_at_max,
        status.as_str(),
        page::fetch(limit),
        i64::from(from.passed),
    )?;
    let looked_to_the_end = rows.last().is_none_or(|row| row.place < looked_at_max);
    let end = behind(&rows, from);
    // What ended the look may be there for its place alone.
    rows.retain(|row| {
        row.order
            .0
            .as_ref()
            .map_or(true, |order| order.status == status)
    });
    let fits = usize::try_from(limit).unwrap_or(usize::MAX);
    let next = if rows.len() > fits {
        rows.truncate(fits);
        Some(behind(&rows, from))
    } else {
        Some(end).filter(|_| !looked_to_the_end)
    };
    let (items, unreadable) = sort_out(rows.into_iter().map(|row| row.order).collect());
    let page = Page {
        items,
        unreadable: count(unreadable.len()),
        next,
    };
    Ok((page, unreadable))
}

/// The place behind the last of these rows.
fn behind(rows: &[PlacedRow], from: &Place<OrderCursor>) -> Place<OrderCursor> {
    let last = rows.last().map_or(0, |row| row.place);
    let readable = rows
        .iter()
        .rev()
        .find_map(|row| Some((row.order.0.as_ref().ok()?.cursor(), row.place)));
    match readable {
        Some((cursor, place)) => Place {
            after: Some(cursor),
            passed: count(last.saturating_sub(place)),
        },
        None => Place {
            after: from.after.clone(),
            passed: from.passed.saturating_add(count(last)),
        },
    }
}

fn count(of: impl TryInto<u32>) -> u32 {
    of.try_into().unwrap_or(u32::MAX)
}

/// An order, readable or not, and its place among those that were looked at.
struct PlacedRow {
    order: Checked<Order>,
    place: i64,
}

impl<'r, R> FromRow<'r, R> for PlacedRow
where
    R: sqlx::Row,
    &'static str: ColumnIndex<R>,
    Checked<Order>: FromRow<'r, R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            order: FromRow::from_row(row)?,
            place: row.try_get("place")?,
        })
    }
}
