//! Payments that waited for their order.

use std::collections::HashSet;

use order_fsm::{OrderId, Verdict};

use crate::conn::{Conn, Tx, fetch_all};
use crate::error::{Error, doing};
use crate::exceptions::{self, exception_id};
use crate::pay::{Claim, pay};
use crate::payments::{Payment, PaymentRow};
use crate::store::Store;
use crate::{orders, sql};

impl Store {
    /// Judges the payments that wait for these orders, in a transaction of its own; returns how
    /// many were settled. Whatever doesn't exist yet keeps waiting.
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
        let fast = self.options.fast_advance;
        self.write_unless(dry_run, "settling", move |tx| {
            let order_ids = order_ids.clone();
            Box::pin(async move { settle(tx, &order_ids, fast).await })
        })
        .await
    }

    /// Finds payments that wait though their order exists (a process died between a commit and
    /// the settling after it) and settles them, at most `limit` orders; a dry run is rolled back.
    pub async fn settle_stranded(&self, limit: u32, dry_run: bool) -> Result<u64, Error> {
        let stranded = self
            .read(move |conn| {
                Box::pin(async move {
                    fetch_all!(conn, (String,), sql::ORDERS_STRANDED, i64::from(limit))
                        .map_err(doing("looking for stranded payments"))
                })
            })
            .await?;
        let ids = stranded
            .into_iter()
            .map(|(id,)| {
                let row = orders::Row {
                    table: "payments",
                    id: &id,
                };
                row.column("order_id", id.parse())
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.settle_unless(dry_run, ids).await
    }

    /// The settling after a commit. Its failure is no failure of what was committed: what it
    /// leaves is found by [`Self::settle_stranded`]. Returns whether it settled any.
    pub(crate) async fn settle_after_commit(&self, order_ids: Vec<OrderId>) -> bool {
        match self.settle_waiting(order_ids).await {
            Ok(settled) => settled > 0,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "settling after a commit failed; it is done later");
                false
            }
        }
    }
}

/// Judges the payments waiting for these orders, one after the other in the contract's order.
pub(crate) async fn settle(tx: &mut Tx, order_ids: &[OrderId], fast: bool) -> Result<u64, Error> {
    let waiting = lock_waiting(tx, order_ids).await?;
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

async fn lock_waiting(tx: &mut Tx, order_ids: &[OrderId]) -> Result<Vec<Payment>, Error> {
    let ids: Vec<&str> = order_ids.iter().map(OrderId::as_str).collect();
    let rows = match tx.conn() {
        Conn::Postgres(c) => {
            sqlx::query_as::<_, PaymentRow>(sql::PAYMENTS_WAITING.postgres)
                .bind(ids)
                .fetch_all(&mut **c)
                .await
        }
        Conn::Sqlite(c) => {
            sqlx::query_as::<_, PaymentRow>(sql::PAYMENTS_WAITING.sqlite)
                .bind(orders::json_array(&ids))
                .fetch_all(&mut **c)
                .await
        }
    };
    rows.map_err(doing("locking waiting payments"))?
        .into_iter()
        .map(Payment::try_from)
        .collect()
}
