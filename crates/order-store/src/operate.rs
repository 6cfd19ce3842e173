//! Operations of people and jobs on an order: ship, complete, cancel.

use order_fsm::{Decision, OrderEvent, OrderId, Refusal, Transition, decide};

use crate::crash;
use crate::error::{Error, doing};
use crate::guards::Guards;
use crate::orders::{self, Order};
use crate::rows::Checked;
use crate::run::fetch_all;
use crate::source::Source;
use crate::sql;
use crate::store::Store;
use crate::transitions::{self, Advanced, NewRefusal, NewTransition};
use crate::ts::Ts;
use crate::tx::Tx;

/// What is to be done to an order.
#[derive(Debug, Clone)]
pub struct Operation {
    /// To which order.
    pub order_id: OrderId,
    /// What: any event but a payment.
    pub event: OrderEvent,
    /// Which way it came in.
    pub source: Source,
    /// The actor.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// The versions the caller expects, if it does; asked before everything else.
    pub if_version: Option<Vec<i64>>,
    /// The reasons refusals get in the history: the names of the answers the caller gets.
    pub refused_as: RefusedAs,
}

/// How refusals are named in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedAs {
    /// The step is not legal.
    pub illegal: &'static str,
    /// Money is held.
    pub money_held: &'static str,
}

/// The outcome, with the order as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operated {
    /// The order took the step.
    Applied(Order),
    /// It had taken the step before.
    AlreadyThere(Order),
    /// The step is not legal.
    Refused(Order, Refusal),
    /// A payment for this order waits for a person or for the order, or its history says that it was paid although its
    /// status doesn't: it isn't cancelled.
    MoneyHeld(Order),
    /// The order has another version than the caller expects.
    OtherVersion(Order),
    /// The order doesn't exist.
    Missing,
}

impl Store {
    /// Does an operation: locks the order, then looks and updates in new statements. A guard in a sub-select of an update
    /// that waits for a lock would not be evaluated again.
    pub async fn operate(&self, operation: Operation) -> Result<Operated, Error> {
        self.write("operating", operation, operate).await
    }

    /// Keeps in the history that an operation was refused for a reason that the store doesn't know; returns the order as
    /// it is.
    pub async fn refuse(
        &self,
        operation: Operation,
        reason: &'static str,
    ) -> Result<Option<Order>, Error> {
        self.write("refusing", (operation, reason), refuse_only)
            .await
    }
}

async fn refuse_only(
    tx: &mut Tx,
    (operation, reason): &(Operation, &'static str),
) -> Result<Option<Order>, Error> {
    let id = operation.order_id.as_str();
    let order = orders::lock(tx, &[id]).await?.pop();
    if let Some(order) = &order {
        refuse(tx, operation, order, reason).await?;
    }
    Ok(order)
}

async fn operate(tx: &mut Tx, operation: &Operation) -> Result<Operated, Error> {
    let id = operation.order_id.as_str();
    let Some(mut order) = orders::lock(tx, &[id]).await?.pop() else {
        return Ok(Operated::Missing);
    };
    if operation
        .if_version
        .as_ref()
        .is_some_and(|wanted| !wanted.contains(&order.version))
    {
        return Ok(Operated::OtherVersion(order));
    }
    let step = match decide(order.status, operation.event) {
        Decision::Advance(step) => step,
        Decision::AlreadyThere => return Ok(Operated::AlreadyThere(order)),
        Decision::Refused(refusal) => {
            refuse(tx, operation, &order, operation.refused_as.illegal).await?;
            return Ok(Operated::Refused(order, refusal));
        }
    };
    if operation.event == OrderEvent::Cancel
        && Guards::read(tx, &[id]).await?.forbid(&order).is_some()
    {
        refuse(tx, operation, &order, operation.refused_as.money_held).await?;
        return Ok(Operated::MoneyHeld(order));
    }
    let advanced = advance(tx, id, step).await?;
    crash::point("operating:advanced");
    let transition = NewTransition {
        source: operation.source,
        actor: &operation.actor,
        reason: operation.reason.as_deref(),
        ..NewTransition::step(operation.event, &advanced, order.price())
    };
    transitions::insert(tx, &[transition]).await?;
    order.status = step.to;
    order.version = advanced.version;
    let Ts(updated_at) = advanced.updated_at;
    order.updated_at = updated_at;
    Ok(Operated::Applied(order))
}

async fn refuse(
    tx: &mut Tx,
    operation: &Operation,
    order: &Order,
    reason: &str,
) -> Result<(), Error> {
    let refusal = NewRefusal {
        order_id: order.order_id.as_str(),
        version: order.version,
        event: operation.event,
        reason,
        payment: None,
        source: operation.source,
        actor: &operation.actor,
    };
    transitions::refuse(tx, &[refusal]).await
}

async fn advance(tx: &mut Tx, order_id: &str, step: Transition) -> Result<Advanced, Error> {
    let now = tx.now();
    let rows = fetch_all!(
        tx.conn(),
        Checked<Advanced>,
        sql::orders::ADVANCE,
        order_id,
        step.from.as_str(),
        step.to.as_str(),
        now,
    )
    .map_err(doing("advancing an order"))?;
    // Under the lock the guard can't fail.
    tx.only(rows)?
        .ok_or(Error::Raced("advancing a locked order"))
}
