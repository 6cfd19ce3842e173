//! Orders: what they are, and how they are read and locked.

use std::collections::HashSet;

use order_fsm::{Amount, Currency, OrderFacts, OrderId, OrderStatus, Provider, TransactionId};
use time::OffsetDateTime;

use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::rows::{Checked, Row, Stored, from_row, sort_out};
use crate::run::{List, fetch_all};
use crate::sql;
use crate::ts::Ts;
use crate::tx::Tx;

/// An order as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The business id.
    pub order_id: OrderId,
    /// Where it stands.
    pub status: OrderStatus,
    /// What is due.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// The number of steps it took, the creation included.
    pub version: i64,
    /// Until when it should be paid.
    pub pay_by: OffsetDateTime,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// When it took its last step.
    pub updated_at: OffsetDateTime,
    /// The payment that paid it.
    pub paid_by: Option<PaidBy>,
}

/// The payment that paid an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaidBy {
    /// The provider that took the money.
    pub provider: Provider,
    /// The provider's id.
    pub transaction_id: TransactionId,
}

impl Order {
    /// What it costs.
    pub(crate) fn price(&self) -> (Amount, Currency) {
        (self.amount, self.currency)
    }

    /// What a payment is judged against.
    pub fn facts(&self) -> OrderFacts {
        OrderFacts {
            status: self.status,
            amount: self.amount,
            currency: self.currency,
        }
    }
}

/// An order as it is committed, if it is there.
pub(crate) async fn get(conn: &mut Conn, order_id: &OrderId) -> sqlx::Result<Vec<Checked<Order>>> {
    fetch_all!(conn, Checked<Order>, sql::orders::GET, order_id.as_str())
}

/// Those of these orders that are there.
pub(crate) async fn get_each(
    conn: &mut Conn,
    (order_ids,): &(Vec<String>,),
) -> sqlx::Result<Vec<Checked<Order>>> {
    fetch_all!(conn, Checked<Order>, sql::orders::GET_EACH, List(order_ids))
}

/// Locks orders in key order and reads them; the ids must be sorted. One that can't be read fails
/// all.
pub(crate) async fn lock(tx: &mut Tx, order_ids: &[&str]) -> Result<Vec<Order>, Error> {
    let (orders, unreadable) = lock_each(tx, order_ids).await?;
    match unreadable.into_iter().next() {
        None => Ok(orders),
        Some(error) => Err(error),
    }
}

/// Locks orders in key order and reads each for itself; the ids must be sorted. Returns the
/// readable ones and what is wrong with the others.
pub(crate) async fn lock_each(
    tx: &mut Tx,
    order_ids: &[&str],
) -> Result<(Vec<Order>, Vec<Error>), Error> {
    let rows = fetch_all!(
        tx.conn(),
        Checked<Order>,
        sql::orders::LOCK,
        List(order_ids)
    );
    let (orders, unreadable) = sort_out(rows.map_err(doing("locking orders"))?);
    tx.note_unreadable(&unreadable);
    Ok((orders, unreadable))
}

/// Those of these orders that another transaction has locked now.
pub(crate) async fn locked(
    tx: &mut Tx,
    (order_ids,): &(Vec<String>,),
) -> Result<HashSet<String>, Error> {
    let rows = fetch_all!(tx.conn(), (String,), sql::orders::LOCKED, List(order_ids));
    let rows = rows.map_err(doing("looking for locked orders"))?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

from_row! {
    pub(crate) struct OrderRow {
        order_id: String,
        status: String,
        amount: i64,
        currency: String,
        version: i64,
        pay_by: Ts,
        created_at: Ts,
        updated_at: Ts,
        paid_provider: Option<String>,
        paid_transaction_id: Option<String>,
    }
}

impl Stored for Order {
    type Row = OrderRow;
    const TABLE: &'static str = "orders";
    const KEY: &'static [&'static str] = &["order_id"];
}

impl TryFrom<OrderRow> for Order {
    type Error = Error;

    fn try_from(row: OrderRow) -> Result<Self, Error> {
        let at = Row {
            table: "orders",
            id: &row.order_id,
        };
        let paid_by = match (&row.paid_provider, &row.paid_transaction_id) {
            (Some(provider), Some(transaction_id)) => Some(PaidBy {
                provider: at.column("paid_provider", provider.parse())?,
                transaction_id: at.column("paid_transaction_id", transaction_id.parse())?,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(at.wrong("paid_transaction_id", "missing")),
            (None, Some(_)) => return Err(at.wrong("paid_provider", "missing")),
        };
        Ok(Self {
            order_id: at.column("order_id", row.order_id.parse())?,
            status: at.column("status", row.status.parse())?,
            amount: at.column("amount", row.amount.try_into())?,
            currency: at.column("currency", row.currency.parse())?,
            version: at.version("version", row.version)?,
            pay_by: row.pay_by.0,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
            paid_by,
        })
    }
}
