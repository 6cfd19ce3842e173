//! Recorded payments: claimed once, for ever.

use std::collections::HashMap;

use order_fsm::{Content, EventId, OrderId, PaymentKey, Provider, TransactionId, Verdict};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::conn::{Conn, Tx, fetch_all};
use crate::error::{Error, doing};
use crate::orders::Row;
use crate::record::PaymentFact;
use crate::store::Store;
use crate::ts::Ts;
use crate::{Source, sql};

/// A recorded payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Which payment.
    pub key: PaymentKey,
    /// The label of the message that told it first; none from a reconciliation.
    pub event_id: Option<EventId>,
    /// For which order, how much.
    pub content: Content,
    /// What it did.
    pub verdict: Verdict,
    /// When it happened, as told.
    pub occurred_at: OffsetDateTime,
    /// When it was recorded.
    pub received_at: OffsetDateTime,
    /// Which way it came in.
    pub source: Source,
}

/// Where a page of payments ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentCursor {
    /// The payment's time; not compared in lists over all orders.
    pub received_at: OffsetDateTime,
    /// Its provider.
    pub provider: String,
    /// Its transaction.
    pub transaction_id: String,
    /// Its kind.
    pub kind: String,
}

impl Payment {
    /// The place of this payment.
    pub fn cursor(&self) -> PaymentCursor {
        PaymentCursor {
            received_at: self.received_at,
            provider: self.key.provider.to_string(),
            transaction_id: self.key.transaction_id.to_string(),
            kind: self.key.kind.to_string(),
        }
    }
}

impl PaymentCursor {
    fn start() -> Self {
        Self {
            received_at: START,
            provider: String::new(),
            transaction_id: String::new(),
            kind: String::new(),
        }
    }
}

/// Before every year the edge lets in.
pub(crate) const START: OffsetDateTime = time::macros::datetime!(-200-01-01 0:00 UTC);

/// Which payments to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Only of this provider.
    pub provider: Option<Provider>,
    /// Only of this transaction.
    pub transaction_id: Option<TransactionId>,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
}

impl Store {
    /// A page of the payments of an order, oldest first, whether the order exists or not.
    pub async fn order_payments(
        &self,
        order_id: OrderId,
        after: Option<PaymentCursor>,
        limit: u32,
    ) -> Result<Vec<Payment>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let after = after.unwrap_or_else(PaymentCursor::start);
                let rows = fetch_all!(
                    conn,
                    PaymentRow,
                    sql::PAYMENTS_OF_ORDER,
                    order_id.as_str(),
                    Ts(after.received_at),
                    after.provider.as_str(),
                    after.transaction_id.as_str(),
                    after.kind.as_str(),
                    i64::from(limit),
                );
                read_rows(rows)
            })
        })
        .await
    }

    /// A page of all payments, in key order.
    pub async fn list_payments(
        &self,
        filter: PaymentFilter,
        after: Option<PaymentCursor>,
        limit: u32,
    ) -> Result<Vec<Payment>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                // A transaction alone is looked up under each provider, never by a scan.
                if filter.provider.is_none() && filter.transaction_id.is_some() {
                    return list_by_transaction(conn, &filter, after, limit).await;
                }
                list(conn, &filter, after, limit).await
            })
        })
        .await
    }
}

async fn list_by_transaction(
    conn: &mut Conn,
    filter: &PaymentFilter,
    after: Option<PaymentCursor>,
    limit: u32,
) -> Result<Vec<Payment>, Error> {
    let providers =
        fetch_all!(conn, (String,), sql::PAYMENTS_PROVIDERS).map_err(doing("listing providers"))?;
    let mut found = Vec::new();
    for (provider,) in providers {
        let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        if after
            .as_ref()
            .is_some_and(|after| provider < after.provider)
        {
            continue;
        }
        let row = Row {
            table: "payments",
            id: &provider,
        };
        let provider = row.column("provider", provider.parse())?;
        let filter = PaymentFilter {
            provider: Some(provider),
            ..filter.clone()
        };
        found.extend(list(conn, &filter, after.clone(), left).await?);
    }
    Ok(found)
}

async fn list(
    conn: &mut Conn,
    filter: &PaymentFilter,
    after: Option<PaymentCursor>,
    limit: u32,
) -> Result<Vec<Payment>, Error> {
    let after = after.unwrap_or_else(PaymentCursor::start);
    let rows = fetch_all!(
        conn,
        PaymentRow,
        sql::PAYMENTS_LIST,
        filter.provider.as_ref().map(Provider::as_str),
        filter.transaction_id.as_ref().map(TransactionId::as_str),
        filter.verdict.map(Verdict::as_str),
        after.provider.as_str(),
        after.transaction_id.as_str(),
        after.kind.as_str(),
        i64::from(limit),
    );
    read_rows(rows)
}

fn read_rows(rows: Result<Vec<PaymentRow>, sqlx::Error>) -> Result<Vec<Payment>, Error> {
    rows.map_err(doing("listing payments"))?
        .into_iter()
        .map(Payment::try_from)
        .collect()
}

/// Inserts payments that are not there yet; returns the keys that are new. Keys must differ.
pub(crate) async fn claim(
    tx: &mut Tx,
    rows: &[(&PaymentFact, Verdict)],
) -> Result<Vec<PaymentKey>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let now = tx.now();
    let keys = match tx.conn() {
        Conn::Postgres(c) => {
            let column = |f: fn(&PaymentFact) -> &str| -> Vec<&str> {
                rows.iter().map(|(fact, _)| f(fact)).collect()
            };
            let event_ids: Vec<Option<&str>> = rows
                .iter()
                .map(|(fact, _)| fact.event_id.as_ref().map(EventId::as_str))
                .collect();
            let amounts: Vec<i64> = rows
                .iter()
                .map(|(fact, _)| fact.content.amount.minor_units())
                .collect();
            let times: Vec<Ts> = rows
                .iter()
                .map(|(fact, _)| Ts::truncated(fact.occurred_at))
                .collect();
            let verdicts: Vec<&str> = rows.iter().map(|(_, verdict)| verdict.as_str()).collect();
            sqlx::query_as::<_, KeyRow>(sql::PAYMENTS_CLAIM.postgres)
                .bind(column(|fact| fact.key.provider.as_str()))
                .bind(column(|fact| fact.key.transaction_id.as_str()))
                .bind(column(|fact| fact.key.kind.as_str()))
                .bind(event_ids)
                .bind(column(|fact| fact.content.order_id.as_str()))
                .bind(amounts)
                .bind(column(|fact| fact.content.currency.as_str()))
                .bind(times)
                .bind(verdicts)
                .bind(column(|fact| fact.source.as_str()))
                .bind(now)
                .fetch_all(&mut **c)
                .await
        }
        Conn::Sqlite(c) => {
            let json: Vec<Value> = rows
                .iter()
                .map(|(fact, verdict)| {
                    json!([
                        fact.key.provider.as_str(),
                        fact.key.transaction_id.as_str(),
                        fact.key.kind.as_str(),
                        fact.event_id.as_ref().map(EventId::as_str),
                        fact.content.order_id.as_str(),
                        fact.content.amount.minor_units(),
                        fact.content.currency.as_str(),
                        Ts::truncated(fact.occurred_at).micros(),
                        verdict.as_str(),
                        fact.source.as_str(),
                    ])
                })
                .collect();
            sqlx::query_as::<_, KeyRow>(sql::PAYMENTS_CLAIM.sqlite)
                .bind(Value::from(json).to_string())
                .bind(now)
                .fetch_all(&mut **c)
                .await
        }
    };
    keys.map_err(doing("claiming payments"))?
        .iter()
        .map(KeyRow::key)
        .collect()
}

/// The recorded content of payments.
pub(crate) async fn known(
    tx: &mut Tx,
    keys: &[&PaymentKey],
) -> Result<HashMap<PaymentKey, Content>, Error> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = match tx.conn() {
        Conn::Postgres(c) => {
            let column = |f: fn(&PaymentKey) -> &str| -> Vec<&str> {
                keys.iter().map(|key| f(key)).collect()
            };
            sqlx::query_as::<_, KnownRow>(sql::PAYMENTS_KNOWN.postgres)
                .bind(column(|key| key.provider.as_str()))
                .bind(column(|key| key.transaction_id.as_str()))
                .bind(column(|key| key.kind.as_str()))
                .fetch_all(&mut **c)
                .await
        }
        Conn::Sqlite(c) => {
            sqlx::query_as::<_, KnownRow>(sql::PAYMENTS_KNOWN.sqlite)
                .bind(
                    Value::from(keys.iter().map(|key| json_key(key)).collect::<Vec<_>>())
                        .to_string(),
                )
                .fetch_all(&mut **c)
                .await
        }
    };
    rows.map_err(doing("reading known payments"))?
        .into_iter()
        .map(|row| {
            let at = Row {
                table: "payments",
                id: &row.key.transaction_id,
            };
            let content = Content {
                order_id: at.column("order_id", row.order_id.parse())?,
                amount: at.column("amount", row.amount.try_into())?,
                currency: at.column("currency", row.currency.parse())?,
            };
            Ok((row.key.key()?, content))
        })
        .collect()
}

/// Rewrites verdicts of payments that are stored with `stored`; returns how many it rewrote.
pub(crate) async fn judge(
    tx: &mut Tx,
    changed: &[(&PaymentKey, Verdict)],
    stored: Verdict,
) -> Result<u64, Error> {
    if changed.is_empty() {
        return Ok(0);
    }
    let rewritten = match tx.conn() {
        Conn::Postgres(c) => {
            let column = |f: fn(&PaymentKey) -> &str| -> Vec<&str> {
                changed.iter().map(|(key, _)| f(key)).collect()
            };
            sqlx::query(sql::PAYMENTS_JUDGE.postgres)
                .bind(column(|key| key.provider.as_str()))
                .bind(column(|key| key.transaction_id.as_str()))
                .bind(column(|key| key.kind.as_str()))
                .bind(
                    changed
                        .iter()
                        .map(|(_, verdict)| verdict.as_str())
                        .collect::<Vec<_>>(),
                )
                .bind(stored.as_str())
                .execute(&mut **c)
                .await
                .map(|done| done.rows_affected())
        }
        Conn::Sqlite(c) => {
            let json: Vec<Value> = changed
                .iter()
                .map(|(key, verdict)| {
                    json!([
                        key.provider.as_str(),
                        key.transaction_id.as_str(),
                        key.kind.as_str(),
                        verdict.as_str()
                    ])
                })
                .collect();
            sqlx::query(sql::PAYMENTS_JUDGE.sqlite)
                .bind(Value::from(json).to_string())
                .bind(stored.as_str())
                .execute(&mut **c)
                .await
                .map(|done| done.rows_affected())
        }
    };
    rewritten.map_err(doing("writing verdicts"))
}

fn json_key(key: &PaymentKey) -> Value {
    json!([
        key.provider.as_str(),
        key.transaction_id.as_str(),
        key.kind.as_str()
    ])
}

#[derive(sqlx::FromRow)]
struct KeyRow {
    provider: String,
    transaction_id: String,
    kind: String,
}

impl KeyRow {
    fn key(&self) -> Result<PaymentKey, Error> {
        let at = Row {
            table: "payments",
            id: &self.transaction_id,
        };
        Ok(PaymentKey {
            provider: at.column("provider", self.provider.parse())?,
            transaction_id: at.column("transaction_id", self.transaction_id.parse())?,
            kind: at.column("kind", self.kind.parse())?,
        })
    }
}

#[derive(sqlx::FromRow)]
struct KnownRow {
    #[sqlx(flatten)]
    key: KeyRow,
    order_id: String,
    amount: i64,
    currency: String,
}

#[derive(sqlx::FromRow)]
pub(crate) struct PaymentRow {
    #[sqlx(flatten)]
    key: KeyRow,
    event_id: Option<String>,
    order_id: String,
    verdict: String,
    amount: i64,
    currency: String,
    occurred_at: Ts,
    received_at: Ts,
    source: String,
}

impl TryFrom<PaymentRow> for Payment {
    type Error = Error;

    fn try_from(row: PaymentRow) -> Result<Self, Error> {
        let at = Row {
            table: "payments",
            id: &row.key.transaction_id,
        };
        let event_id = row
            .event_id
            .map(|id| at.column("event_id", id.parse()))
            .transpose()?;
        Ok(Self {
            key: row.key.key()?,
            event_id,
            content: Content {
                order_id: at.column("order_id", row.order_id.parse())?,
                amount: at.column("amount", row.amount.try_into())?,
                currency: at.column("currency", row.currency.parse())?,
            },
            verdict: at.column("verdict", row.verdict.parse())?,
            occurred_at: row.occurred_at.0,
            received_at: row.received_at.0,
            source: at.column("source", row.source.parse())?,
        })
    }
}
