//! Payments that waited for their order.
//!
//! They are settled in lots: a transaction stays short however many payments wait for one order. A waiting payment or
//! an order that can't be read holds back the payments of its order, and nothing else.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use order_fsm::{OrderId, Verdict};
use sqlx::FromRow;

use crate::claim::Claim;
use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::exceptions::{self, exception_id};
use crate::pay::pay;
use crate::payments::Payment;
use crate::rows::{Checked, Row, Stored, from_row, sort_out};
use crate::run::{List, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::Bound;
use crate::tx::Tx;
use crate::waiting::WaitingRange;

/// The most waiting payments that one transaction looks at.
pub(crate) const LOT_MAX: u32 = 500;

/// Where a lot begins, and what the lots before it found.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The last payment of the lot before, in the contract's order.
    after: (Bound, String, String),
    /// Orders whose payments go on waiting: a row of theirs can't be read.
    held: BTreeSet<OrderId>,
}

impl Place {
    /// Before the first payment.
    pub(crate) fn start() -> Self {
        Self {
            after: (Bound::START, String::new(), String::new()),
            held: BTreeSet::new(),
        }
    }
}

/// What one transaction settled.
pub(crate) struct Lot {
    settled: u64,
    /// Where the next one begins, if there may be more.
    next: Option<Place>,
}

impl Store {
    /// Judges the payments that wait for these orders, in transactions of their own; returns how
    /// many were settled. Payments whose order doesn't exist yet keep waiting.
    pub async fn settle_waiting(&self, order_ids: Vec<OrderId>) -> Result<u64, Error> {
        self.settle_unless(false, order_ids).await
    }

    async fn settle_unless(
        &self,
        dry_run: bool,
        mut order_ids: Vec<OrderId>,
    ) -> Result<u64, Error> {
        if order_ids.is_empty() {
            return Ok(0);
        }
        order_ids.sort();
        let order_ids: Arc<[OrderId]> = order_ids.into();
        let mut settled = 0;
        let mut place = Place::start();
        loop {
            let lot = self.settle_lot(dry_run, &order_ids, place).await?;
            settled += lot.settled;
            match lot.next {
                Some(next) => place = next,
                None => return Ok(settled),
            }
        }
    }

    /// Settles one lot. Orders that turn out to be unreadable are left alone: the lot is settled again without them.
    async fn settle_lot(
        &self,
        dry_run: bool,
        order_ids: &Arc<[OrderId]>,
        mut place: Place,
    ) -> Result<Lot, Error> {
        let mut fast = self.options.fast_advance;
        loop {
            let args = (order_ids.clone(), place.clone(), fast);
            let settled = self.write_unless(dry_run, "settling", args, settle_lot);
            match settled.await {
                Err(Error::HeldBack(rows)) => {
                    let before = place.held.len();
                    place.held.extend(rows.into_iter().map(|row| row.order_id));
                    // Nothing more to leave out: the next time would end the same way.
                    if place.held.len() == before {
                        return Err(Error::Raced("leaving out orders that can't be read"));
                    }
                }
                // A row that an update met before it was read: read first, it is found.
                Err(error) if fast && error.may_be_a_row() => fast = false,
                done => return done,
            }
        }
    }

    /// Finds payments of a range that wait though their order exists (a process died between a
    /// commit and the settling after it) and settles them; a dry run is rolled back. Returns how many
    /// were settled.
    pub async fn settle_stranded(&self, range: WaitingRange, dry_run: bool) -> Result<u64, Error> {
        let stranded = self.read("looking for stranded payments", range, stranded);
        let (stranded, unreadable) = sort_out(stranded.await?);
        self.note_unreadable(&unreadable);
        let ids = stranded.into_iter().map(|order| order.0);
        self.settle_unless(dry_run, ids.collect()).await
    }

    /// The settling after a commit. If it fails, the commit stands: what is left over is found by
    /// [`Self::settle_stranded`]. Returns whether it settled any.
    pub(crate) async fn settle_after_commit(&self, order_ids: Vec<OrderId>) -> bool {
        match self.settle_waiting(order_ids).await {
            Ok(settled) => settled > 0,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "waiting payments not settled after a commit; the next walk settles them, within a minute"
                );
                false
            }
        }
    }
}

async fn stranded(conn: &mut Conn, range: &WaitingRange) -> sqlx::Result<Vec<Checked<Stranded>>> {
    let (after, until) = (range.after(), range.until());
    fetch_all!(
        conn,
        Checked<Stranded>,
        sql::payments::STRANDED,
        after.0,
        after.1,
        after.2,
        until.0,
        until.1,
        until.2
    )
}

async fn settle_lot(
    tx: &mut Tx,
    (order_ids, place, fast): &(Arc<[OrderId]>, Place, bool),
) -> Result<Lot, Error> {
    settle(tx, order_ids, place.clone(), *fast).await
}

/// Judges one lot of the payments waiting for these orders, one after the other in the contract's order.
pub(crate) async fn settle(
    tx: &mut Tx,
    order_ids: &[OrderId],
    mut place: Place,
    fast: bool,
) -> Result<Lot, Error> {
    let rows = lock_waiting(tx, order_ids, &place).await?;
    let is_full = rows.len() as u64 == u64::from(LOT_MAX);
    let mut waiting = Vec::with_capacity(rows.len());
    for row in rows {
        match row.payment.0 {
            Ok(payment) => waiting.push(payment),
            Err(error) => {
                tx.note_unreadable(&[error]);
                // A payment before the others may be the one that pays: its whole order waits.
                place.held.extend(row.order_id);
            }
        }
    }
    let next = waiting.last().filter(|_| is_full).map(|last| {
        let (provider, transaction_id) = (&last.key.provider, &last.key.transaction_id);
        let after = (
            last.received_at.into(),
            provider.to_string(),
            transaction_id.to_string(),
        );
        Place {
            after,
            held: place.held.clone(),
        }
    });
    waiting.retain(|payment| !place.held.contains(&payment.content.order_id));
    let settled = settle_locked(tx, &waiting, fast).await?;
    Ok(Lot { settled, next })
}

async fn settle_locked(tx: &mut Tx, waiting: &[Payment], fast: bool) -> Result<u64, Error> {
    if waiting.is_empty() {
        return Ok(0);
    }
    // A new statement, after the lock: a person who closes an exception locks the payment first.
    let ids: Vec<String> = waiting
        .iter()
        .map(|payment| exception_id(Verdict::WaitingForOrder, &payment.key, &payment.content))
        .collect();
    let closed: HashSet<String> = exceptions::closed_by_a_person(tx, &ids).await?;
    let open: Vec<(&Payment, &String)> = waiting
        .iter()
        .zip(&ids)
        .filter(|(_, id)| !closed.contains(*id))
        .collect();

    let claims: Vec<Claim<'_>> = open
        .iter()
        .map(|(payment, _)| Claim::from(*payment))
        .collect();
    let verdicts = pay(tx, &claims, Verdict::WaitingForOrder, fast).await?;
    let settled: Vec<&str> = open
        .iter()
        .zip(&verdicts)
        .filter(|(_, verdict)| **verdict != Verdict::WaitingForOrder)
        .map(|((_, id), _)| id.as_str())
        .collect();
    exceptions::settle(tx, &settled).await?;
    Ok(settled.len() as u64)
}

/// A waiting payment, readable or not, and the order that it waits for.
struct Waiting {
    order_id: Option<OrderId>,
    payment: Checked<Payment>,
}

impl<'r, R> FromRow<'r, R> for Waiting
where
    R: sqlx::Row,
    &'static str: sqlx::ColumnIndex<R>,
    String: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
    Checked<Payment>: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let order_id: Result<String, _> = row.try_get("order_id");
        Ok(Self {
            order_id: order_id.ok().and_then(|id| id.parse().ok()),
            payment: Checked::from_row(row)?,
        })
    }
}

async fn lock_waiting(
    tx: &mut Tx,
    order_ids: &[OrderId],
    place: &Place,
) -> Result<Vec<Waiting>, Error> {
    let ids: Vec<&str> = order_ids.iter().map(OrderId::as_str).collect();
    let (received_at, provider, transaction_id) = &place.after;
    fetch_all!(
        tx.conn(),
        Waiting,
        sql::payments::WAITING,
        List(&ids),
        *received_at,
        provider,
        transaction_id,
        i64::from(LOT_MAX),
    )
    .map_err(doing("locking waiting payments"))
}

/// An order that exists while payments wait for it.
struct Stranded(OrderId);

from_row! {
    struct StrandedRow {
        order_id: String,
    }
}

impl Stored for Stranded {
    type Row = StrandedRow;
    const TABLE: &'static str = "orders";
    const KEY: &'static [&'static str] = &["order_id"];
}

impl TryFrom<StrandedRow> for Stranded {
    type Error = Error;

    fn try_from(row: StrandedRow) -> Result<Self, Error> {
        let at = Row {
            table: "orders",
            id: &row.order_id,
        };
        at.column("order_id", row.order_id.parse()).map(Self)
    }
}
