//! Creating orders.

use std::sync::Arc;

use order_fsm::{Amount, Currency, OrderId, OrderStatus};
use time::OffsetDateTime;

use crate::crash;
use crate::error::{Error, doing};
use crate::orders::Order;
use crate::reconcile::{Schedule, insert_check};
use crate::rows::Checked;
use crate::run::{execute, fetch_all};
use crate::settle;
use crate::source::Source;
use crate::sql;
use crate::store::{Store, StoreOptions};
use crate::transitions::{self, CREATION, NewTransition};
use crate::ts::Ts;
use crate::tx::Tx;

/// An order to be created.
#[derive(Debug, Clone)]
pub struct NewOrder {
    /// The business id.
    pub order_id: OrderId,
    /// What is due.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// Until when it should be paid; `StoreOptions::pay_within` is the default.
    pub pay_by: Option<OffsetDateTime>,
    /// The actor who creates it.
    pub actor: String,
}

/// The outcome of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateOutcome {
    /// It was created, and waiting payments were applied.
    Created(Order),
    /// The same order existed already: not an error.
    AlreadyThere(Order),
    /// It existed with another amount, currency or `pay_by`.
    Differs(Order),
}

impl Store {
    /// Creates an order and settles the payments that waited for it.
    ///
    /// A payment that is recorded as waiting while this commits is seen by the second settling: of two that miss each
    /// other, the later one to commit sees the other.
    pub async fn create_order(&self, new: NewOrder) -> Result<CreateOutcome, Error> {
        let order_id = new.order_id.clone();
        let created = self.write("creating", (new, self.options.clone()), create);
        let order = match created.await? {
            CreateOutcome::Created(order) => order,
            outcome => return Ok(outcome),
        };
        if self.settle_after_commit(vec![order_id.clone()]).await {
            let settled = self.get_order(order_id).await?;
            return Ok(CreateOutcome::Created(settled.unwrap_or(order)));
        }
        Ok(CreateOutcome::Created(order))
    }
}

async fn create(
    tx: &mut Tx,
    (new, options): &(NewOrder, Arc<StoreOptions>),
) -> Result<CreateOutcome, Error> {
    let now = tx.now();
    let given = new.pay_by.map(Ts::truncated);
    let pay_by = given.unwrap_or(now.plus(options.pay_within));
    if !insert(tx, new, pay_by).await? {
        let order = must_get(tx, &new.order_id).await?;
        let same = order.amount == new.amount
            && order.currency == new.currency
            && given.is_none_or(|at| at.0 == order.pay_by);
        return Ok(if same {
            CreateOutcome::AlreadyThere(order)
        } else {
            CreateOutcome::Differs(order)
        });
    }
    let creation = NewTransition {
        order_id: new.order_id.as_str(),
        version: 1,
        from: None,
        to: OrderStatus::NotPaid,
        event: CREATION,
        source: Source::Api,
        actor: &new.actor,
        reason: None,
        payment: None,
        at: now,
        amount: new.amount,
        currency: new.currency,
    };
    transitions::insert(tx, &[creation]).await?;
    let first = Schedule::begin(
        now.0,
        pay_by.0,
        options.check_after,
        options.last_check_after,
    );
    insert_check(tx, &new.order_id, first).await?;
    crash::point("creating:inserted");
    // The first lot; the rest is settled right after the commit.
    let order_ids = std::slice::from_ref(&new.order_id);
    settle::settle(tx, order_ids, settle::Place::start(), options.fast_advance).await?;
    must_get(tx, &new.order_id)
        .await
        .map(CreateOutcome::Created)
}

async fn insert(tx: &mut Tx, new: &NewOrder, pay_by: Ts) -> Result<bool, Error> {
    let now = tx.now();
    let inserted = execute!(
        tx.conn(),
        sql::orders::INSERT,
        new.order_id.as_str(),
        OrderStatus::NotPaid.as_str(),
        new.amount.minor_units(),
        new.currency.as_str(),
        pay_by,
        now,
    );
    Ok(inserted.map_err(doing("creating an order"))? == 1)
}

/// Reads an order that is there: orders are never deleted.
async fn must_get(tx: &mut Tx, order_id: &OrderId) -> Result<Order, Error> {
    let rows = fetch_all!(
        tx.conn(),
        Checked<Order>,
        sql::orders::GET,
        order_id.as_str()
    )
    .map_err(doing("reading an order"))?;
    tx.only(rows)?.ok_or(Error::Raced("reading an order back"))
}
