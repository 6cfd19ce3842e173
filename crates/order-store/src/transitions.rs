//! What happened to an order: transitions, which are history and outbox in one row, and refusals.

use order_fsm::{OrderEvent, OrderId, OrderStatus, Provider, TransactionId, Transition};
use time::OffsetDateTime;

use crate::conn::{Conn, Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::moved::Moved;
use crate::orders::{NewOrder, Row};
use crate::pay::PaymentRef;
use crate::store::Store;
use crate::ts::Ts;
use crate::{Source, sql};

/// A line of an order's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryItem {
    /// The version it led to, or met.
    pub version: i64,
    /// The status before; none for the creation and for refusals.
    pub from: Option<OrderStatus>,
    /// The status after; none for refusals.
    pub to: Option<OrderStatus>,
    /// What happened: `create` or an event.
    pub event: String,
    /// Whether it moved the order.
    pub outcome: Outcome,
    /// Which way it came in.
    pub source: Source,
    /// Who did it.
    pub actor: String,
    /// Why, or why not.
    pub reason: Option<String>,
    /// The payment behind it.
    pub provider: Option<Provider>,
    /// The payment behind it.
    pub transaction_id: Option<TransactionId>,
    /// When.
    pub at: OffsetDateTime,
}

/// Whether a line of history moved its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Applied,
    /// It was refused.
    Refused,
}

/// Where a page of history ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCursor {
    /// The item's version.
    pub version: i64,
    /// Whether it was a refusal.
    pub refused: bool,
    /// Its time.
    pub at: OffsetDateTime,
    /// Its event.
    pub event: String,
    /// Its reason, or nothing.
    pub reason: String,
    /// Its provider, or nothing.
    pub provider: String,
    /// Its transaction, or nothing.
    pub transaction_id: String,
}

impl HistoryItem {
    /// The place of this item.
    pub fn cursor(&self) -> HistoryCursor {
        HistoryCursor {
            version: self.version,
            refused: self.outcome == Outcome::Refused,
            at: self.at,
            event: self.event.clone(),
            reason: self.reason.clone().unwrap_or_default(),
            provider: self
                .provider
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            transaction_id: self
                .transaction_id
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        }
    }
}

impl Store {
    /// A page of an order's history, oldest first.
    pub async fn history(
        &self,
        order_id: OrderId,
        after: Option<HistoryCursor>,
        limit: u32,
    ) -> Result<Vec<HistoryItem>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let after = after.unwrap_or(HistoryCursor {
                    version: 0,
                    refused: false,
                    at: OffsetDateTime::UNIX_EPOCH,
                    event: String::new(),
                    reason: String::new(),
                    provider: String::new(),
                    transaction_id: String::new(),
                });
                let rows = fetch_all!(
                    conn,
                    HistoryRow,
                    sql::HISTORY,
                    order_id.as_str(),
                    after.version,
                    i64::from(after.refused),
                    Ts(after.at),
                    after.event.as_str(),
                    after.reason.as_str(),
                    after.provider.as_str(),
                    after.transaction_id.as_str(),
                    i64::from(limit),
                )
                .map_err(doing("reading a history"))?;
                rows.into_iter()
                    .map(|row| row.into_item(&order_id))
                    .collect()
            })
        })
        .await
    }
}

/// A transition to be written.
pub(crate) struct NewTransition<'a> {
    pub(crate) order_id: &'a str,
    pub(crate) version: i64,
    pub(crate) from: Option<OrderStatus>,
    pub(crate) to: OrderStatus,
    pub(crate) event: &'static str,
    pub(crate) source: Source,
    pub(crate) actor: &'a str,
    pub(crate) reason: Option<&'a str>,
    pub(crate) payment: Option<PaymentRef<'a>>,
    pub(crate) at: Ts,
}

impl<'a> NewTransition<'a> {
    /// The first of an order.
    pub(crate) fn creation(order: &'a NewOrder, at: Ts) -> Self {
        Self {
            order_id: order.order_id.as_str(),
            version: 1,
            from: None,
            to: OrderStatus::NotPaid,
            event: "create",
            source: Source::Api,
            actor: &order.actor,
            reason: None,
            payment: None,
            at,
        }
    }

    /// A step that the update of an order returned.
    pub(crate) fn step(event: OrderEvent, advanced: &'a Advanced) -> Self {
        let Transition { from, to } = Transition::of(event);
        Self {
            order_id: &advanced.order_id,
            version: advanced.version,
            from: Some(from),
            to,
            event: event.as_str(),
            source: Source::Api,
            actor: "",
            reason: None,
            payment: None,
            at: advanced.updated_at,
        }
    }
}

/// What a guarded update returns for an order that it moved.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Advanced {
    pub(crate) order_id: String,
    pub(crate) version: i64,
    pub(crate) updated_at: Ts,
}

/// Writes transitions. Their key makes a version a fact that happens once.
pub(crate) async fn insert(tx: &mut Tx, rows: &[NewTransition<'_>]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let written = match tx.conn() {
        Conn::Postgres(c) => {
            let column = |f: fn(&NewTransition<'_>) -> Option<String>| {
                rows.iter().map(f).collect::<Vec<_>>()
            };
            sqlx::query(sql::TRANSITIONS_INSERT.postgres)
                .bind(rows.iter().map(|t| t.order_id).collect::<Vec<_>>())
                .bind(rows.iter().map(|t| t.version).collect::<Vec<_>>())
                .bind(
                    rows.iter()
                        .map(|t| t.from.map(OrderStatus::as_str))
                        .collect::<Vec<_>>(),
                )
                .bind(rows.iter().map(|t| t.to.as_str()).collect::<Vec<_>>())
                .bind(rows.iter().map(|t| t.event).collect::<Vec<_>>())
                .bind(rows.iter().map(|t| t.source.as_str()).collect::<Vec<_>>())
                .bind(rows.iter().map(|t| t.actor).collect::<Vec<_>>())
                .bind(column(|t| t.reason.map(str::to_owned)))
                .bind(column(|t| t.payment.map(|p| p.provider.to_owned())))
                .bind(column(|t| t.payment.map(|p| p.transaction_id.to_owned())))
                .bind(rows.iter().map(|t| t.at).collect::<Vec<_>>())
                .execute(&mut **c)
                .await
                .map(|done| done.rows_affected())
        }
        Conn::Sqlite(c) => {
            let json: Vec<serde_json::Value> = rows
                .iter()
                .map(|t| {
                    serde_json::json!([
                        t.order_id,
                        t.version,
                        t.from.map(OrderStatus::as_str),
                        t.to.as_str(),
                        t.event,
                        t.source.as_str(),
                        t.actor,
                        t.reason,
                        t.payment.map(|p| p.provider),
                        t.payment.map(|p| p.transaction_id),
                        t.at.micros(),
                    ])
                })
                .collect();
            sqlx::query(sql::TRANSITIONS_INSERT.sqlite)
                .bind(serde_json::Value::from(json).to_string())
                .execute(&mut **c)
                .await
                .map(|done| done.rows_affected())
        }
    };
    let written = written.map_err(doing("writing transitions"))?;
    if written != rows.len() as u64 {
        return Err(Error::Raced("writing transitions"));
    }
    tx.moved.extend(rows.iter().map(|row| Moved {
        order_id: row.order_id.to_owned(),
        version: row.version,
    }));
    Ok(())
}

/// A refusal to be written.
pub(crate) struct NewRefusal<'a> {
    pub(crate) order_id: &'a str,
    pub(crate) version: i64,
    pub(crate) event: OrderEvent,
    pub(crate) reason: &'a str,
    pub(crate) payment: Option<PaymentRef<'a>>,
    pub(crate) source: Source,
    pub(crate) actor: &'a str,
}

/// Writes a refusal, once per version met, event, reason and transaction.
pub(crate) async fn refuse(tx: &mut Tx, refusal: &NewRefusal<'_>) -> Result<(), Error> {
    let now = tx.now();
    execute!(
        tx.conn(),
        sql::REFUSAL_INSERT,
        refusal.order_id,
        refusal.version,
        refusal.event.as_str(),
        refusal.reason,
        refusal.payment.map_or("", |payment| payment.provider),
        refusal.payment.map_or("", |payment| payment.transaction_id),
        refusal.source.as_str(),
        refusal.actor,
        now,
    )
    .map(drop)
    .map_err(doing("writing a refusal"))
}

#[derive(sqlx::FromRow)]
struct HistoryRow {
    version: i64,
    rank: i64,
    from_status: Option<String>,
    to_status: Option<String>,
    event: String,
    source: String,
    actor: String,
    reason: Option<String>,
    provider: String,
    transaction_id: String,
    at: Ts,
}

impl HistoryRow {
    fn into_item(self, order_id: &OrderId) -> Result<HistoryItem, Error> {
        let at = Row {
            table: "transitions",
            id: order_id.as_str(),
        };
        let status = |column, text: Option<String>| {
            text.map(|text| at.column(column, text.parse())).transpose()
        };
        let provider = Some(self.provider).filter(|text| !text.is_empty());
        let transaction_id = Some(self.transaction_id).filter(|text| !text.is_empty());
        Ok(HistoryItem {
            version: self.version,
            from: status("from_status", self.from_status)?,
            to: status("to_status", self.to_status)?,
            event: self.event,
            outcome: if self.rank == 0 {
                Outcome::Applied
            } else {
                Outcome::Refused
            },
            source: at.column("source", self.source.parse())?,
            actor: self.actor,
            reason: self.reason,
            provider: provider
                .map(|p| at.column("provider", p.parse()))
                .transpose()?,
            transaction_id: transaction_id
                .map(|t| at.column("transaction_id", t.parse()))
                .transpose()?,
            at: self.at.0,
        })
    }
}
