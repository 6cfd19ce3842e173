//! Orders across: the list, and the versions of many.

use order_fsm::OrderStatus;
use time::OffsetDateTime;

use crate::conn::{Conn, fetch_all};
use crate::error::{Error, doing};
use crate::orders::{self, Order, OrderRow};
use crate::sql::orders as sql;
use crate::store::Store;
use crate::ts::Ts;

/// How many orders are looked at for one page of a status: they are found by their creation, and
/// those of a status may be far apart.
const LOOKED_AT_MAX: u32 = 5000;

/// Before every order there may be: the first microsecond both databases and the edge know.
const FIRST: OffsetDateTime = time::macros::datetime!(0000-01-01 0:00 UTC);

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPage {
    /// The orders.
    pub orders: Vec<Order>,
    /// Where the next page begins, if there may be one.
    pub next: Option<OrderCursor>,
}

impl Order {
    /// The place of this order in the list.
    pub fn cursor(&self) -> OrderCursor {
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
        after: Option<OrderCursor>,
        limit: u32,
    ) -> Result<OrderPage, Error> {
        let looked_at_max = LOOKED_AT_MAX.max(limit);
        self.read(move |conn| {
            Box::pin(async move {
                let (from, before) = range(&filter, after);
                match filter.status {
                    None => list(conn, &from, before, limit).await,
                    Some(status) => {
                        in_status(conn, &from, before, status, limit, looked_at_max).await
                    }
                }
            })
        })
        .await
    }

    /// The versions of orders, as far as they exist.
    pub async fn order_versions(
        &self,
        order_ids: Vec<String>,
    ) -> Result<Vec<(String, i64)>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let ids: Vec<&str> = order_ids.iter().map(String::as_str).collect();
                let rows = match conn {
                    Conn::Postgres(c) => {
                        sqlx::query_as::<_, (String, i64)>(sql::ORDER_VERSIONS.postgres)
                            .bind(ids)
                            .fetch_all(&mut **c)
                            .await
                    }
                    Conn::Sqlite(c) => {
                        sqlx::query_as::<_, (String, i64)>(sql::ORDER_VERSIONS.sqlite)
                            .bind(orders::json_array(&ids))
                            .fetch_all(&mut **c)
                            .await
                    }
                };
                rows.map_err(doing("reading the versions of orders"))
            })
        })
        .await
    }
}

/// The place after which the page begins, and the time before which it ends.
fn range(filter: &OrderFilter, after: Option<OrderCursor>) -> (OrderCursor, Ts) {
    // No id is empty, so that the orders of this very time come after it.
    let start = OrderCursor {
        created_at: filter.created_after.map_or(FIRST, |at| ceiled(at).0),
        order_id: String::new(),
    };
    let from = match after {
        // A cursor of a page that began there is never before it.
        Some(after)
            if (after.created_at, &after.order_id) > (start.created_at, &start.order_id) =>
        {
            after
        }
        _ => start,
    };
    (from, filter.created_before.map_or(Ts(LAST), ceiled))
}

/// Orders are created at whole microseconds: at or after a time between two is at or after the
/// second of them, and before it is before that one.
fn ceiled(at: OffsetDateTime) -> Ts {
    let floor = Ts::truncated(at);
    if floor.0 == at {
        floor
    } else {
        // After the last microsecond of all there is none, and no order either.
        let next = floor.0.checked_add(time::Duration::MICROSECOND);
        Ts(next.unwrap_or(LAST))
    }
}

async fn list(
    conn: &mut Conn,
    from: &OrderCursor,
    before: Ts,
    limit: u32,
) -> Result<OrderPage, Error> {
    let rows = fetch_all!(
        conn,
        OrderRow,
        sql::ORDERS_LIST,
        Ts(from.created_at),
        from.order_id.as_str(),
        before,
        i64::from(limit) + 1,
    )
    .map_err(doing("listing orders"))?;
    let orders = rows
        .into_iter()
        .map(Order::try_from)
        .collect::<Result<_, _>>()?;
    Ok(cut(orders, limit))
}

async fn in_status(
    conn: &mut Conn,
    from: &OrderCursor,
    before: Ts,
    status: OrderStatus,
    limit: u32,
    looked_at_max: u32,
) -> Result<OrderPage, Error> {
    let rows = fetch_all!(
        conn,
        PlacedRow,
        sql::ORDERS_IN_STATUS,
        Ts(from.created_at),
        from.order_id.as_str(),
        before,
        i64::from(looked_at_max),
        status.as_str(),
        i64::from(limit) + 1,
    )
    .map_err(doing("listing orders in a status"))?;
    let ended = rows
        .last()
        .is_none_or(|row| row.place < i64::from(looked_at_max));
    let mut orders = rows
        .into_iter()
        .map(|row| Order::try_from(row.order))
        .collect::<Result<Vec<_>, _>>()?;
    // What ended the look: it may be there for its place alone.
    let last = orders.last().filter(|_| !ended).map(Order::cursor);
    orders.retain(|order| order.status == status);
    let page = cut(orders, limit);
    Ok(OrderPage {
        next: page.next.or(last),
        orders: page.orders,
    })
}

/// One more than fits says that another page follows.
fn cut(mut orders: Vec<Order>, limit: u32) -> OrderPage {
    let fits = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = orders.len() > fits;
    orders.truncate(fits);
    let next = orders.last().filter(|_| more).map(Order::cursor);
    OrderPage { orders, next }
}

#[derive(sqlx::FromRow)]
struct PlacedRow {
    #[sqlx(flatten)]
    order: OrderRow,
    place: i64,
}
