//! What needs a person: written with the payment that caused it, once.

use std::collections::HashSet;
use std::fmt::Write as _;

use order_fsm::{Amount, Content, Currency, EventId, OrderId, PaymentKey, Verdict};
use sha2::{Digest as _, Sha256};

use crate::conn::{Conn, Tx, execute};
use crate::error::{Error, doing};
use crate::orders::{Order, json_array};
use crate::pay::Claim;
use crate::ts::Ts;
use crate::{SELF_ACTOR, sql};

/// What the payment should have said.
pub(crate) struct Expected<'a> {
    order_id: Option<&'a OrderId>,
    amount: Option<Amount>,
    currency: Option<Currency>,
    pay_by: Option<Ts>,
}

impl<'a> Expected<'a> {
    /// Nothing is known.
    pub(crate) fn nothing() -> Self {
        Self {
            order_id: None,
            amount: None,
            currency: None,
            pay_by: None,
        }
    }

    /// What the order asks for.
    pub(crate) fn order(order: &'a Order) -> Self {
        Self {
            order_id: Some(&order.order_id),
            amount: Some(order.amount),
            currency: Some(order.currency),
            pay_by: Some(Ts(order.pay_by)),
        }
    }

    /// What was recorded before.
    pub(crate) fn recorded(content: &'a Content) -> Self {
        Self {
            order_id: Some(&content.order_id),
            amount: Some(content.amount),
            currency: Some(content.currency),
            pay_by: None,
        }
    }
}

/// The id of an exception: the digest of what makes it unique.
pub fn exception_id(verdict: Verdict, key: &PaymentKey, content: &Content) -> String {
    let amount = content.amount.to_string();
    digest(&[
        verdict.as_str(),
        key.provider.as_str(),
        key.transaction_id.as_str(),
        key.kind.as_str(),
        content.order_id.as_str(),
        &amount,
        content.currency.as_str(),
    ])
}

/// Hex SHA-256 of parts, none of which contains the separator.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part.as_bytes());
        sha.update(b"\n");
    }
    hex(&sha.finalize())
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Opens an exception; one that is known, open or closed, stays as it is.
pub(crate) async fn open(
    tx: &mut Tx,
    verdict: Verdict,
    claim: &Claim<'_>,
    expected: &Expected<'_>,
) -> Result<(), Error> {
    let now = tx.now();
    let id = exception_id(verdict, claim.key, claim.content);
    execute!(
        tx.conn(),
        sql::EXCEPTION_INSERT,
        id.as_str(),
        verdict.as_str(),
        claim.content.order_id.as_str(),
        claim.key.provider.as_str(),
        claim.key.transaction_id.as_str(),
        claim.key.kind.as_str(),
        claim.event_id.map(EventId::as_str),
        claim.content.amount.minor_units(),
        claim.content.currency.as_str(),
        expected.order_id.map(OrderId::as_str),
        expected.amount.map(Amount::minor_units),
        expected.currency.as_ref().map(Currency::as_str),
        claim.occurred_at,
        expected.pay_by,
        now,
    )
    .map(drop)
    .map_err(doing("opening an exception"))
}

/// Of these, those a person closed.
pub(crate) async fn closed_by_a_person(
    tx: &mut Tx,
    ids: &[String],
) -> Result<HashSet<String>, Error> {
    let rows = match tx.conn() {
        Conn::Postgres(c) => {
            sqlx::query_as::<_, (String,)>(sql::EXCEPTIONS_CLOSED.postgres)
                .bind(ids)
                .fetch_all(&mut **c)
                .await
        }
        Conn::Sqlite(c) => {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            sqlx::query_as::<_, (String,)>(sql::EXCEPTIONS_CLOSED.sqlite)
                .bind(json_array(&ids))
                .fetch_all(&mut **c)
                .await
        }
    };
    Ok(rows
        .map_err(doing("reading exceptions"))?
        .into_iter()
        .map(|(id,)| id)
        .collect())
}

/// Closes open exceptions of waiting payments that found their order.
pub(crate) async fn settle(tx: &mut Tx, ids: &[&str]) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    let settled = match tx.conn() {
        Conn::Postgres(c) => sqlx::query(sql::EXCEPTIONS_SETTLE.postgres)
            .bind(ids)
            .bind(SELF_ACTOR)
            .bind(now)
            .execute(&mut **c)
            .await
            .map(drop),
        Conn::Sqlite(c) => sqlx::query(sql::EXCEPTIONS_SETTLE.sqlite)
            .bind(json_array(ids))
            .bind(SELF_ACTOR)
            .bind(now)
            .execute(&mut **c)
            .await
            .map(drop),
    };
    settled.map_err(doing("settling exceptions"))
}
