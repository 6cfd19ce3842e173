//! The outbox: transitions and exceptions that are not published yet, and their marks.
//!
//! A mark per row, not a high-water mark: a row that commits late is still found. Marks are
//! written by the holder of a lease only, so that one who lost it writes none.

use std::fmt;

use order_fsm::{Amount, Currency, OrderId, OrderStatus, Provider, TransactionId};
use time::OffsetDateTime;

use crate::Source;
use crate::conn::{Conn, Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::leases::{self, Lease};
use crate::orders::{Row, json_array};
use crate::payment_exception::{PaymentException, PaymentExceptionRow};
use crate::sql::outbox as sql;
use crate::store::Store;
use crate::ts::Ts;

/// Names a row of the outbox. As text it is the id of the published message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OutboxKey {
    /// The step of an order to a version.
    Transition(OrderId, i64),
    /// An exception.
    Exception(String),
}

impl fmt::Display for OutboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transition(order_id, version) => write!(f, "{order_id}/{version}"),
            Self::Exception(id) => f.write_str(id),
        }
    }
}

/// A step of an order, with what its event tells of the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTransition {
    /// Which order.
    pub order_id: OrderId,
    /// The version it led to.
    pub version: i64,
    /// The status before; none for the creation.
    pub from: Option<OrderStatus>,
    /// The status after.
    pub to: OrderStatus,
    /// What the order costs.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// The payment behind it.
    pub provider: Option<Provider>,
    /// The payment behind it.
    pub transaction_id: Option<TransactionId>,
    /// Which way it came in.
    pub source: Source,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub at: OffsetDateTime,
}

/// What is to be published next.
#[derive(Debug, Default)]
pub struct Unpublished {
    /// Of each order at most its lowest unpublished version; oldest first.
    pub transitions: Vec<PublishedTransition>,
    /// Exceptions as they are now, oldest first.
    pub exceptions: Vec<PaymentException>,
    /// Rows that this version doesn't understand; they stay unpublished and hold up nothing but
    /// their order.
    pub unreadable: Vec<Error>,
}

/// What came of writing under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// So many rows that had no mark have one.
    Marked(u64),
    /// The lease is somebody else's, or was ended: nothing was written.
    LeaseLost,
}

impl Store {
    /// What is not published yet, at most `limit` of each kind.
    pub async fn unpublished(&self, limit: u32) -> Result<Unpublished, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let limit = i64::from(limit);
                let transitions =
                    fetch_all!(conn, TransitionRow, sql::TRANSITIONS_UNPUBLISHED, limit)
                        .map_err(doing("reading unpublished transitions"))?;
                let exceptions = fetch_all!(
                    conn,
                    PaymentExceptionRow,
                    sql::EXCEPTIONS_UNPUBLISHED,
                    limit
                )
                .map_err(doing("reading unpublished exceptions"))?;
                let mut found = Unpublished::default();
                for row in transitions {
                    match PublishedTransition::try_from(row) {
                        Ok(transition) => found.transitions.push(transition),
                        Err(error) => found.unreadable.push(error),
                    }
                }
                for row in exceptions {
                    match PaymentException::try_from(row) {
                        Ok(exception) => found.exceptions.push(exception),
                        Err(error) => found.unreadable.push(error),
                    }
                }
                Ok(found)
            })
        })
        .await
    }

    /// Marks rows as published, if the lease is still this holder's, and renews it.
    pub async fn mark_published(
        &self,
        lease: &Lease,
        keys: Vec<OutboxKey>,
    ) -> Result<Marked, Error> {
        let lease = lease.clone();
        self.write("marking", move |tx| {
            let (lease, keys) = (lease.clone(), keys.clone());
            Box::pin(async move {
                if !leases::renew(tx, &lease).await? {
                    return Ok(Marked::LeaseLost);
                }
                let transitions = mark_transitions(tx, &keys).await?;
                Ok(Marked::Marked(
                    transitions + mark_exceptions(tx, &keys).await?,
                ))
            })
        })
        .await
    }

    /// Leaves a row out that can't be published, if the lease is still this holder's.
    pub async fn set_aside(
        &self,
        lease: &Lease,
        key: OutboxKey,
        why: String,
    ) -> Result<Marked, Error> {
        let lease = lease.clone();
        self.write("setting-aside", move |tx| {
            let (lease, key, why) = (lease.clone(), key.clone(), why.clone());
            Box::pin(async move {
                if !leases::renew(tx, &lease).await? {
                    return Ok(Marked::LeaseLost);
                }
                let why = why.as_str();
                match &key {
                    OutboxKey::Transition(order_id, version) => execute!(
                        tx.conn(),
                        sql::TRANSITION_SET_ASIDE,
                        order_id.as_str(),
                        *version,
                        why
                    ),
                    OutboxKey::Exception(id) => {
                        execute!(tx.conn(), sql::EXCEPTION_SET_ASIDE, id.as_str(), why)
                    }
                }
                .map(Marked::Marked)
                .map_err(doing("setting an event aside"))
            })
        })
        .await
    }
}

async fn mark_transitions(tx: &mut Tx, keys: &[OutboxKey]) -> Result<u64, Error> {
    let (ids, versions): (Vec<&str>, Vec<i64>) = keys
        .iter()
        .filter_map(|key| match key {
            OutboxKey::Transition(order_id, version) => Some((order_id.as_str(), *version)),
            OutboxKey::Exception(_) => None,
        })
        .unzip();
    if ids.is_empty() {
        return Ok(0);
    }
    let now = tx.now();
    let marked = match tx.conn() {
        Conn::Postgres(c) => sqlx::query(sql::TRANSITIONS_MARK.postgres)
            .bind(ids)
            .bind(versions)
            .bind(now)
            .execute(&mut **c)
            .await
            .map(|done| done.rows_affected()),
        Conn::Sqlite(c) => {
            let keys: Vec<serde_json::Value> = ids
                .iter()
                .zip(versions)
                .map(|(order_id, version)| serde_json::json!([order_id, version]))
                .collect();
            sqlx::query(sql::TRANSITIONS_MARK.sqlite)
                .bind(serde_json::Value::from(keys).to_string())
                .bind(now)
                .execute(&mut **c)
                .await
                .map(|done| done.rows_affected())
        }
    };
    marked.map_err(doing("marking published transitions"))
}

async fn mark_exceptions(tx: &mut Tx, keys: &[OutboxKey]) -> Result<u64, Error> {
    let ids: Vec<&str> = keys
        .iter()
        .filter_map(|key| match key {
            OutboxKey::Transition(..) => None,
            OutboxKey::Exception(id) => Some(id.as_str()),
        })
        .collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let now = tx.now();
    let marked = match tx.conn() {
        Conn::Postgres(c) => sqlx::query(sql::EXCEPTIONS_MARK.postgres)
            .bind(ids)
            .bind(now)
            .execute(&mut **c)
            .await
            .map(|done| done.rows_affected()),
        Conn::Sqlite(c) => sqlx::query(sql::EXCEPTIONS_MARK.sqlite)
            .bind(json_array(&ids))
            .bind(now)
            .execute(&mut **c)
            .await
            .map(|done| done.rows_affected()),
    };
    marked.map_err(doing("marking published exceptions"))
}

#[derive(sqlx::FromRow)]
struct TransitionRow {
    order_id: String,
    version: i64,
    from_status: Option<String>,
    to_status: String,
    source: String,
    reason: Option<String>,
    provider: Option<String>,
    transaction_id: Option<String>,
    at: Ts,
    amount: i64,
    currency: String,
}

impl TryFrom<TransitionRow> for PublishedTransition {
    type Error = Error;

    fn try_from(row: TransitionRow) -> Result<Self, Error> {
        let at = Row {
            table: "transitions",
            id: &row.order_id,
        };
        Ok(Self {
            order_id: at.column("order_id", row.order_id.parse())?,
            version: row.version,
            from: row
                .from_status
                .map(|text| at.column("from_status", text.parse()))
                .transpose()?,
            to: at.column("to_status", row.to_status.parse())?,
            amount: at.column("amount", row.amount.try_into())?,
            currency: at.column("currency", row.currency.parse())?,
            provider: row
                .provider
                .map(|text| at.column("provider", text.parse()))
                .transpose()?,
            transaction_id: row
                .transaction_id
                .map(|text| at.column("transaction_id", text.parse()))
                .transpose()?,
            source: at.column("source", row.source.parse())?,
            reason: row.reason,
            at: row.at.0,
        })
    }
}
