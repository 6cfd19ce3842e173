//! What needs a person: written with the payment that caused it, once.

use std::collections::HashSet;

use order_fsm::{Amount, Content, Currency, EventId, OrderId, PaymentKey, Verdict};

use crate::claim::Claim;
use crate::digest::digest;
use crate::error::{Error, doing};
use crate::orders::Order;
use crate::run::{List, execute, fetch_all, fetch_rows};
use crate::source::SELF_ACTOR;
use crate::ts::Ts;
use crate::tx::Tx;
use crate::{outbox, sql};

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

/// An exception to be opened.
pub(crate) struct NewException<'a> {
    id: String,
    verdict: Verdict,
    claim: Claim<'a>,
    expected: Expected<'a>,
}

impl<'a> NewException<'a> {
    pub(crate) fn new(verdict: Verdict, claim: Claim<'a>, expected: Expected<'a>) -> Self {
        Self {
            id: exception_id(verdict, claim.key, claim.content),
            verdict,
            claim,
            expected,
        }
    }
}

/// Opens exceptions; one that is known, open or closed, stays as it is. Returns the ids of the new ones.
pub(crate) async fn open(
    tx: &mut Tx,
    mut exceptions: Vec<NewException<'_>>,
) -> Result<Vec<String>, Error> {
    if exceptions.is_empty() {
        return Ok(Vec::new());
    }
    // By key: two batches may open the same ones.
    exceptions.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let now = tx.now();
    let rows = fetch_rows!(
        tx.conn(),
        (String,),
        sql::exceptions::INSERT,
        exceptions,
        |e| [
            e.id.as_str(),
            e.verdict.as_str(),
            e.claim.content.order_id.as_str(),
            e.claim.key.provider.as_str(),
            e.claim.key.transaction_id.as_str(),
            e.claim.key.kind.as_str(),
            e.claim.event_id.map(EventId::as_str),
            e.claim.content.amount.minor_units(),
            e.claim.content.currency.as_str(),
            e.expected.order_id.map(OrderId::as_str),
            e.expected.amount.map(Amount::minor_units),
            e.expected.currency.as_ref().map(Currency::as_str),
            e.claim.occurred_at,
            e.expected.pay_by,
        ],
        now,
        Ts::IN_THE_OUTBOX,
    );
    let rows = rows.map_err(doing("opening exceptions"))?;
    let opened: Vec<String> = rows.into_iter().map(|(id,)| id).collect();
    for id in &opened {
        tx.unpublished.push(now, outbox::exception_line(id));
    }
    Ok(opened)
}

/// Of these, those a person closed.
pub(crate) async fn closed_by_a_person(
    tx: &mut Tx,
    ids: &[String],
) -> Result<HashSet<String>, Error> {
    let rows = fetch_all!(
        tx.conn(),
        (String,),
        sql::exceptions::CLOSED_BY_A_PERSON,
        List(ids)
    );
    let rows = rows.map_err(doing("reading exceptions"))?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

/// Closes open exceptions of waiting payments that found their order.
pub(crate) async fn settle(tx: &mut Tx, ids: &[&str]) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    execute!(
        tx.conn(),
        sql::exceptions::SETTLE,
        List(ids),
        SELF_ACTOR,
        now
    )
    .map(drop)
    .map_err(doing("settling exceptions"))
}
