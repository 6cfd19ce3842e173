//! Orders that are due.

use std::time::Duration;

use order_fsm::{OrderId, OrderStatus};
use sqlx::FromRow;
use time::OffsetDateTime;

use super::schedule::{PAUSE_MAX, Schedule, later};
use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::page::Place;
use crate::rows::{Checked, Row, Stored, from_row};
use crate::run::{execute, fetch_all, json, json_rows};
use crate::sql;
use crate::store::Store;
use crate::ts::{Bound, Ts};
use crate::tx::Tx;

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
    /// Consecutive answers without information.
    pub fn unknowns(&self) -> i64 {
        self.schedule.unknowns
    }
}

/// A due order that can't be read, though its schedule can.
#[derive(Debug)]
pub struct UnreadableDue {
    /// Which one.
    pub order_id: OrderId,
    /// What is wrong with which row.
    pub error: Error,
    schedule: Schedule,
}

/// Where a page of due orders ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueCursor {
    at: OffsetDateTime,
    order_id: String,
}

/// Due orders, oldest first.
#[derive(Debug)]
pub struct DuePage {
    /// The orders.
    pub orders: Vec<DueOrder>,
    /// Orders that can't be read: they are to be put off, like those without an answer.
    pub unreadable: Vec<UnreadableDue>,
    /// Where the next page begins; absent at the end.
    pub next: Option<Place<DueCursor>>,
}

impl Store {
    /// A page of the orders that were due at `until`, at most `limit`.
    pub async fn due_orders(
        &self,
        from: Place<DueCursor>,
        until: OffsetDateTime,
        limit: u32,
    ) -> Result<DuePage, Error> {
        let last_check_after = self.options.last_check_after;
        let args = (from.clone(), until, limit);
        let rows = self.read("looking for due orders", args, due).await?;
        let full = rows.len() as u64 == u64::from(limit);
        let next = behind(&rows, from);
        let mut page = DuePage {
            orders: Vec::with_capacity(rows.len()),
            unreadable: Vec::new(),
            next: Some(next).filter(|_| full),
        };
        for Due { check, order } in rows {
            match (check.0, order.0) {
                (Ok(check), Ok(order)) => {
                    page.orders.push(order.due(check, until, last_check_after));
                }
                (Ok(check), Err(error)) => {
                    self.note_unreadable([&error]);
                    page.unreadable.push(UnreadableDue {
                        order_id: check.order_id,
                        error,
                        schedule: check.schedule,
                    });
                }
                // Without a readable key and schedule, it can't be put off.
                (Err(error), _) => self.note_unreadable([&error]),
            }
        }
        Ok(page)
    }

    /// Puts off what can't be read, each time for longer; a dry run is rolled back.
    pub async fn put_off(&self, orders: Vec<UnreadableDue>, dry_run: bool) -> Result<(), Error> {
        if orders.is_empty() {
            return Ok(());
        }
        self.write_unless(dry_run, "putting-off", (orders,), put_off)
            .await
    }
}

async fn due(
    conn: &mut Conn,
    (from, until, limit): &(Place<DueCursor>, OffsetDateTime, u32),
) -> sqlx::Result<Vec<Due>> {
    let after = from.after.as_ref();
    fetch_all!(
        conn,
        Due,
        sql::checks::DUE,
        after.map_or(Bound::START, |after| after.at.into()),
        after.map_or("", |after| after.order_id.as_str()),
        Ts(*until),
        i64::from(*limit),
        i64::from(from.passed),
    )
}

async fn put_off(tx: &mut Tx, (orders,): &(Vec<UnreadableDue>,)) -> Result<(), Error> {
    let now = tx.now().0;
    let later = orders
        .iter()
        .map(|order| (&order.order_id, order.schedule.unanswered(now, true)));
    move_checks(tx, &later.collect::<Vec<_>>()).await
}

/// The place behind the last of these rows.
fn behind(rows: &[Due], from: Place<DueCursor>) -> Place<DueCursor> {
    let passed = rows.iter().rev().take_while(|row| row.check.0.is_err());
    let passed = u32::try_from(passed.count()).unwrap_or(u32::MAX);
    match rows.iter().rev().find_map(|row| row.check.0.as_ref().ok()) {
        Some(check) => Place {
            after: Some(DueCursor {
                at: check.schedule.next_check_at,
                order_id: check.order_id.to_string(),
            }),
            passed,
        },
        None => Place {
            passed: from.passed.saturating_add(passed),
            ..from
        },
    }
}

/// A due order: its schedule and where it stands, each readable or not.
struct Due {
    check: Checked<Check>,
    order: Checked<Standing>,
}

impl<'r, R> FromRow<'r, R> for Due
where
    R: sqlx::Row,
    Checked<Check>: FromRow<'r, R>,
    Checked<Standing>: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self {
            check: Checked::from_row(row)?,
            order: Checked::from_row(row)?,
        })
    }
}

pub(crate) struct Check {
    order_id: OrderId,
    schedule: Schedule,
}

from_row! {
    pub(crate) struct CheckRow {
        order_id: String,
        next_check_at: Ts,
        pause_ms: i64,
        unknowns: i64,
    }
}

impl Stored for Check {
    type Row = CheckRow;
    const TABLE: &'static str = "checks";
    const KEY: &'static [&'static str] = &["order_id"];
}

impl TryFrom<CheckRow> for Check {
    type Error = Error;

    fn try_from(row: CheckRow) -> Result<Self, Error> {
        let at = Row {
            table: Self::TABLE,
            id: &row.order_id,
        };
        Ok(Self {
            order_id: at.column("order_id", row.order_id.parse())?,
            schedule: Schedule {
                next_check_at: row.next_check_at.0,
                ask_at: row.next_check_at.0,
                // No pause and a pause of years are both nonsense: the longest one is a start.
                pause: u64::try_from(row.pause_ms)
                    .map(Duration::from_millis)
                    .ok()
                    .filter(|pause| *pause <= PAUSE_BELIEVED)
                    .unwrap_or(PAUSE_MAX),
                unknowns: row.unknowns,
            },
        })
    }
}

/// The longest pause that a setting could have made.
const PAUSE_BELIEVED: Duration = Duration::from_hours(24 * 3650);

/// Where a due order stands.
struct Standing {
    ask_at: OffsetDateTime,
    status: OrderStatus,
    pay_by: OffsetDateTime,
    left_at: Option<OffsetDateTime>,
}

from_row! {
    struct StandingRow {
        order_id: String,
        ask_at: Ts,
        status: String,
        pay_by: Ts,
        left_at: Option<Ts>,
    }
}

impl Stored for Standing {
    type Row = StandingRow;
    const TABLE: &'static str = "orders";
    const KEY: &'static [&'static str] = &["order_id"];

    fn table_of(column: &'static str, _: &dyn Fn(&'static str) -> Option<i64>) -> &'static str {
        match column {
            "ask_at" => Check::TABLE,
            "left_at" => "transitions",
            _ => Self::TABLE,
        }
    }
}

impl TryFrom<StandingRow> for Standing {
    type Error = Error;

    fn try_from(row: StandingRow) -> Result<Self, Error> {
        let at = Row {
            table: Self::TABLE,
            id: &row.order_id,
        };
        Ok(Self {
            ask_at: row.ask_at.0,
            status: at.column("status", row.status.parse())?,
            pay_by: row.pay_by.0,
            left_at: row.left_at.map(|at| at.0),
        })
    }
}

impl Standing {
    fn due(
        self,
        check: Check,
        now: OffsetDateTime,
        last_check_after: Option<Duration>,
    ) -> DueOrder {
        let to_ask = match (self.status, self.left_at) {
            (OrderStatus::NotPaid, _) => self.ask_at <= now,
            (_, Some(left_at)) => {
                last_check_after.is_some_and(|after| later(left_at, after) <= now)
            }
            // No step out of NOT_PAID: the answer may help to explain it.
            (_, None) => true,
        };
        DueOrder {
            order_id: check.order_id,
            status: self.status,
            left_at: self.left_at,
            pay_by: self.pay_by,
            to_ask,
            schedule: Schedule {
                ask_at: self.ask_at,
                ..check.schedule
            },
        }
    }
}

/// Schedules the first question about an order.
pub(crate) async fn insert_check(
    tx: &mut Tx,
    order_id: &OrderId,
    first: Schedule,
) -> Result<(), Error> {
    execute!(
        tx.conn(),
        sql::checks::INSERT,
        order_id.as_str(),
        Ts(first.next_check_at),
        Ts(first.ask_at),
        millis(first.pause),
    )
    .map(drop)
    .map_err(doing("scheduling the first question about an order"))
}

/// Writes new schedules.
pub(super) async fn move_checks(tx: &mut Tx, moved: &[(&OrderId, Schedule)]) -> Result<(), Error> {
    if moved.is_empty() {
        return Ok(());
    }
    let rows = json_rows!(moved, |row| [
        row.0.as_str(),
        Ts(row.1.next_check_at),
        Ts(row.1.ask_at),
        millis(row.1.pause),
        row.1.unknowns,
    ]);
    execute!(tx.conn(), sql::checks::MOVE, rows.as_str())
        .map(drop)
        .map_err(doing("scheduling the next questions"))
}

/// Ends the schedules of orders that need no more questions.
pub(super) async fn end_checks(tx: &mut Tx, ended: &[&str]) -> Result<(), Error> {
    if ended.is_empty() {
        return Ok(());
    }
    let ids = json(ended.iter().copied());
    execute!(tx.conn(), sql::checks::END, ids.as_str())
        .map(drop)
        .map_err(doing("ending the questions about orders"))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
