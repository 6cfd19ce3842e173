//! Orders: creating and reading them.

use order_fsm::{Amount, Currency, OrderFacts, OrderId, OrderStatus, Provider, TransactionId};
use time::OffsetDateTime;

use crate::conn::{Conn, Tx, execute, fetch_all};
use crate::crash;
use crate::error::{Error, doing};
use crate::reconcile::{Schedule, millis};
use crate::store::Store;
use crate::transitions::{self, NewTransition};
use crate::ts::Ts;
use crate::{settle, sql};

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
    /// Who took the money.
    pub provider: Provider,
    /// The provider's id.
    pub transaction_id: TransactionId,
}

impl Order {
    /// What a payment is judged against.
    pub fn facts(&self) -> OrderFacts {
        OrderFacts {
            status: self.status,
            amount: self.amount,
            currency: self.currency,
        }
    }
}

/// An order to be created.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// The business id.
    pub order_id: OrderId,
    /// What is due.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// Until when it should be paid; the store knows a default.
    pub pay_by: Option<OffsetDateTime>,
    /// Who creates it.
    pub actor: String,
}

/// What came of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It is there now, waiting payments applied.
    Created(Order),
    /// It was there, the same: no error.
    AlreadyThere(Order),
    /// It was there with another amount, currency or `pay_by`.
    Differs(Order),
}

impl Store {
    /// Creates an order and settles the payments that waited for it.
    ///
    /// A payment that is recorded as waiting while this commits is seen by the second settling:
    /// of two that miss each other, the later committer sees the other.
    pub async fn create_order(&self, new: NewOrder) -> Result<CreateOutcome, Error> {
        let options = self.options.clone();
        let order_id = new.order_id.clone();
        let outcome = self
            .write("creating", move |tx| {
                let (new, options) = (new.clone(), options.clone());
                Box::pin(async move {
                    let now = tx.now();
                    let given = new.pay_by.map(Ts::truncated);
                    let pay_by = given.unwrap_or(Ts(now.0 + options.pay_within));
                    if !insert(tx, &new, pay_by).await? {
                        let order = must_get(tx.conn(), &new.order_id).await?;
                        let same = order.amount == new.amount
                            && order.currency == new.currency
                            && given.is_none_or(|at| at.0 == order.pay_by);
                        return Ok(if same {
                            CreateOutcome::AlreadyThere(order)
                        } else {
                            CreateOutcome::Differs(order)
                        });
                    }
                    transitions::insert(tx, &[NewTransition::creation(&new, now)]).await?;
                    let first = Schedule::begin(
                        now.0,
                        pay_by.0,
                        options.check_after,
                        options.last_check_after,
                    );
                    insert_check(tx, &new.order_id, first).await?;
                    crash::point("creating:inserted");
                    settle::settle(
                        tx,
                        std::slice::from_ref(&new.order_id),
                        options.fast_advance,
                    )
                    .await?;
                    Ok(CreateOutcome::Created(
                        must_get(tx.conn(), &new.order_id).await?,
                    ))
                })
            })
            .await?;
        let CreateOutcome::Created(order) = outcome else {
            return Ok(outcome);
        };
        if self.settle_after_commit(vec![order_id.clone()]).await {
            let settled = self.get_order(order_id).await?;
            return Ok(CreateOutcome::Created(settled.unwrap_or(order)));
        }
        Ok(CreateOutcome::Created(order))
    }

    /// The order as it is committed.
    pub async fn get_order(&self, order_id: OrderId) -> Result<Option<Order>, Error> {
        self.read(move |conn| Box::pin(async move { get(conn, &order_id).await }))
            .await
    }
}

async fn insert(tx: &mut Tx, new: &NewOrder, pay_by: Ts) -> Result<bool, Error> {
    let now = tx.now();
    let inserted = execute!(
        tx.conn(),
        sql::ORDER_INSERT,
        new.order_id.as_str(),
        OrderStatus::NotPaid.as_str(),
        new.amount.minor_units(),
        new.currency.as_str(),
        pay_by,
        now,
    );
    Ok(inserted.map_err(doing("creating an order"))? == 1)
}

async fn insert_check(tx: &mut Tx, order_id: &OrderId, first: Schedule) -> Result<(), Error> {
    execute!(
        tx.conn(),
        sql::CHECK_INSERT,
        order_id.as_str(),
        Ts(first.next_check_at),
        Ts(first.ask_at),
        millis(first.pause),
    )
    .map(drop)
    .map_err(doing("scheduling the first question about an order"))
}

/// Reads an order.
pub(crate) async fn get(conn: &mut Conn, order_id: &OrderId) -> Result<Option<Order>, Error> {
    let rows = fetch_all!(conn, OrderRow, sql::ORDER_GET, order_id.as_str())
        .map_err(doing("reading an order"))?;
    rows.into_iter().next().map(Order::try_from).transpose()
}

/// Reads an order that is there: orders are never deleted.
async fn must_get(conn: &mut Conn, order_id: &OrderId) -> Result<Order, Error> {
    get(conn, order_id)
        .await?
        .ok_or(Error::Raced("reading an order back"))
}

/// Locks orders in key order and reads them; the ids must be sorted.
pub(crate) async fn lock(tx: &mut Tx, order_ids: &[&str]) -> Result<Vec<Order>, Error> {
    let rows = match tx.conn() {
        Conn::Postgres(c) => {
            sqlx::query_as::<_, OrderRow>(sql::ORDERS_LOCK.postgres)
                .bind(order_ids)
                .fetch_all(&mut **c)
                .await
        }
        Conn::Sqlite(c) => {
            sqlx::query_as::<_, OrderRow>(sql::ORDERS_LOCK.sqlite)
                .bind(json_array(order_ids))
                .fetch_all(&mut **c)
                .await
        }
    };
    rows.map_err(doing("locking orders"))?
        .into_iter()
        .map(Order::try_from)
        .collect()
}

/// Ids as one JSON array, for SQLite.
pub(crate) fn json_array(ids: &[&str]) -> String {
    serde_json::Value::from(ids).to_string()
}

#[derive(sqlx::FromRow)]
struct OrderRow {
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
            _ => None,
        };
        Ok(Self {
            order_id: at.column("order_id", row.order_id.parse())?,
            status: at.column("status", row.status.parse())?,
            amount: at.column("amount", row.amount.try_into())?,
            currency: at.column("currency", row.currency.parse())?,
            version: row.version,
            pay_by: row.pay_by.0,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
            paid_by,
        })
    }
}

/// A row being read: names the place of what doesn't parse.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) table: &'static str,
    pub(crate) id: &'a str,
}

impl Row<'_> {
    pub(crate) fn column<T, E>(self, column: &'static str, value: Result<T, E>) -> Result<T, Error>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        value.map_err(|source| Error::Inconsistent {
            table: self.table,
            column,
            id: self.id.to_owned(),
            source: Box::new(source),
        })
    }
}
