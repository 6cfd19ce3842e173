//! Orders that are due.

use std::time::Duration;

use order_fsm::{OrderId, OrderStatus};
use time::OffsetDateTime;

use super::schedule::Schedule;
use crate::conn::{Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::orders::Row;
use crate::sql::reconcile as sql;
use crate::store::Store;
use crate::ts::Ts;

/// An order whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueOrder {
    /// Which one.
    pub order_id: OrderId,
    /// Where it stood when it was read.
    pub status: OrderStatus,
    /// When it left `NOT_PAID`.
    pub left_at: Option<OffsetDateTime>,
    /// Until when it should be paid.
    pub pay_by: OffsetDateTime,
    /// Whether there is a question about it now; if not, it is only looked at.
    pub to_ask: bool,
    pub(crate) schedule: Schedule,
}

impl DueOrder {
    /// Answers in a row that told nothing.
    pub fn unknowns(&self) -> i64 {
        self.schedule.unknowns
    }
}

/// Where a page of due orders ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueCursor {
    at: OffsetDateTime,
    order_id: String,
}

/// Due orders, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePage {
    /// The orders.
    pub orders: Vec<DueOrder>,
    /// Where the next page begins; none at the end.
    pub next: Option<DueCursor>,
}

impl Store {
    /// A page of the orders that were due at `until`, at most `limit`.
    pub async fn due_orders(
        &self,
        after: Option<DueCursor>,
        until: OffsetDateTime,
        limit: u32,
    ) -> Result<DuePage, Error> {
        let last_check_after = self.options.last_check_after;
        self.read(move |conn| {
            Box::pin(async move {
                let after = after.unwrap_or(DueCursor {
                    at: OffsetDateTime::UNIX_EPOCH,
                    order_id: String::new(),
                });
                let (at, until_ts) = (Ts(after.at), Ts(until));
                let rows = fetch_all!(
                    conn,
                    DueRow,
                    sql::DUE,
                    at,
                    after.order_id.as_str(),
                    until_ts,
                    i64::from(limit),
                )
                .map_err(doing("looking for due orders"))?;
                let full = rows.len() as u64 == u64::from(limit);
                let next = rows.last().filter(|_| full).map(|row| DueCursor {
                    at: row.next_check_at.0,
                    order_id: row.order_id.clone(),
                });
                let orders = rows
                    .into_iter()
                    .map(|row| row.into_order(until, last_check_after))
                    .collect::<Result<_, _>>()?;
                Ok(DuePage { orders, next })
            })
        })
        .await
    }
}

#[derive(sqlx::FromRow)]
struct DueRow {
    order_id: String,
    next_check_at: Ts,
    ask_at: Ts,
    pause_ms: i64,
    unknowns: i64,
    status: String,
    pay_by: Ts,
    left_at: Option<Ts>,
}

impl DueRow {
    fn into_order(
        self,
        now: OffsetDateTime,
        last_check_after: Option<Duration>,
    ) -> Result<DueOrder, Error> {
        let at = Row {
            table: "orders",
            id: &self.order_id,
        };
        let order_id: OrderId = at.column("order_id", self.order_id.parse())?;
        let status = at.column("status", self.status.parse())?;
        let left_at = self.left_at.map(|at| at.0);
        let schedule = Schedule {
            next_check_at: self.next_check_at.0,
            ask_at: self.ask_at.0,
            pause: Duration::from_millis(self.pause_ms.try_into().unwrap_or(0)),
            unknowns: self.unknowns,
        };
        let to_ask = match (status, left_at) {
            (OrderStatus::NotPaid, _) => schedule.ask_at <= now,
            (_, Some(left_at)) => last_check_after.is_some_and(|after| left_at + after <= now),
            // No step out of NOT_PAID: the answer may help to explain it.
            (_, None) => true,
        };
        Ok(DueOrder {
            order_id,
            status,
            left_at,
            pay_by: self.pay_by.0,
            to_ask,
            schedule,
        })
    }
}

/// Writes new schedules.
pub(super) async fn move_checks(tx: &mut Tx, moved: &[(&OrderId, Schedule)]) -> Result<(), Error> {
    if moved.is_empty() {
        return Ok(());
    }
    let rows: Vec<serde_json::Value> = moved
        .iter()
        .map(|(order_id, schedule)| {
            serde_json::json!([
                order_id.as_str(),
                Ts(schedule.next_check_at).micros(),
                Ts(schedule.ask_at).micros(),
                millis(schedule.pause),
                schedule.unknowns,
            ])
        })
        .collect();
    let rows = serde_json::Value::from(rows).to_string();
    execute!(tx.conn(), sql::CHECKS_MOVE, rows.as_str())
        .map(drop)
        .map_err(doing("scheduling the next questions"))
}

/// Ends the schedules of orders that nobody asks about any more.
pub(super) async fn end_checks(tx: &mut Tx, ended: &[&str]) -> Result<(), Error> {
    if ended.is_empty() {
        return Ok(());
    }
    let ids = crate::orders::json_array(ended);
    execute!(tx.conn(), sql::CHECKS_END, ids.as_str())
        .map(drop)
        .map_err(doing("ending the questions about orders"))
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
