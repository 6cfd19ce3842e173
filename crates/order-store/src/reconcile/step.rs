//! What becomes of due orders after their answers: they are cancelled, asked about again, or left
//! alone for good.
//!
//! A cancellation locks the orders first and looks for money in a new statement, like the one by
//! hand: a guard in a sub-select of an update that waits for a lock is not evaluated again.

use std::collections::HashMap;
use std::time::Duration;

use order_fsm::{Amount, Currency, OrderEvent, OrderId, OrderStatus, Transition};
use time::OffsetDateTime;

use super::due::{DueOrder, end_checks, move_checks};
use super::schedule::Schedule;
use crate::crash;
use crate::error::{Error, doing};
use crate::guards::{Forbidden, Guards};
use crate::orders::{self, Order};
use crate::rows::{Checked, sort_out};
use crate::run::{fetch_all, json};
use crate::source::{SELF_ACTOR, Source};
use crate::sql;
use crate::store::Store;
use crate::transitions::{self, Advanced, NewTransition};
use crate::tx::Tx;

/// What is to be done with a due order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It can't be paid any more: cancel it, for this reason, if it is past `pay_by`.
    Cancel {
        /// The answer.
        reason: String,
    },
    /// It was asked about and stays as it is.
    Asked {
        /// Whether the answer contained no information.
        unknown: bool,
    },
    /// It was just paid.
    Paid,
    /// It needs no more questions.
    End,
    /// It was only looked at.
    Look,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped {
    /// It is cancelled.
    Cancelled,
    /// It may still be paid: it is past its last chance, but not past `pay_by`.
    NotYet,
    /// Another writer moved it meanwhile.
    Raced,
    /// A payment for it waits for a person or for the order.
    MoneyHeld,
    /// Its rows contradict one another: it stays as it is.
    Inconsistent,
    /// One of its rows can't be read: it stays as it is.
    Unreadable,
    /// Nothing but its schedule changed.
    Scheduled,
}

impl Store {
    /// Takes a step with each of these orders, in one transaction; a dry run is rolled back.
    /// Returns what became of each, in order.
    pub async fn step_due_orders(
        &self,
        steps: Vec<(DueOrder, Step)>,
        dry_run: bool,
    ) -> Result<Vec<Stepped>, Error> {
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let args = (steps, self.options.last_check_after);
        self.write_unless(dry_run, "reconciling", args, take_steps)
            .await
    }
}

async fn take_steps(
    tx: &mut Tx,
    (steps, last_check_after): &(Vec<(DueOrder, Step)>, Option<Duration>),
) -> Result<Vec<Stepped>, Error> {
    let cancelled = cancel(tx, steps).await?;
    crash::point("reconciling:cancelled");
    let now = tx.now().0;
    let mut moved = Vec::new();
    let mut ended = Vec::new();
    let mut done = Vec::with_capacity(steps.len());
    for (order, step) in steps {
        let stepped = cancelled
            .get(&order.order_id)
            .copied()
            .unwrap_or(Stepped::Scheduled);
        match next(order, step, stepped, now, *last_check_after) {
            Some(schedule) => moved.push((&order.order_id, schedule)),
            None => ended.push(order.order_id.as_str()),
        }
        done.push(stepped);
    }
    move_checks(tx, &moved).await?;
    end_checks(tx, &ended).await?;
    Ok(done)
}

/// The schedule of an order after its step; absent if it needs no more questions.
fn next(
    order: &DueOrder,
    step: &Step,
    stepped: Stepped,
    now: OffsetDateTime,
    last_check_after: Option<Duration>,
) -> Option<Schedule> {
    let schedule = order.schedule;
    let last = |left_at| last_check_after.map(|after| schedule.last(left_at, after));
    let asked = |unknown| schedule.asked(now, order.pay_by, unknown, last_check_after);
    let unpaid = order.status == OrderStatus::NotPaid;
    match step {
        Step::End => None,
        Step::Paid => last(now),
        Step::Cancel { .. } if stepped == Stepped::Cancelled => last(now),
        Step::Cancel { .. } => Some(asked(stepped == Stepped::Unreadable)),
        Step::Asked { unknown } if unpaid => Some(asked(*unknown)),
        Step::Asked { unknown } => Some(schedule.unanswered(now, *unknown)),
        Step::Look if unpaid => Some(schedule.looked(now, last_check_after)),
        Step::Look => last(order.left_at.unwrap_or(now)),
    }
}

/// Cancels the orders that are to be cancelled and may be; returns what became of each of them.
async fn cancel(
    tx: &mut Tx,
    steps: &[(DueOrder, Step)],
) -> Result<HashMap<OrderId, Stepped>, Error> {
    let reasons: HashMap<&str, &str> = steps
        .iter()
        .filter(|(order, _)| order.status == OrderStatus::NotPaid)
        .filter_map(|(order, step)| match step {
            Step::Cancel { reason } => Some((order.order_id.as_str(), reason.as_str())),
            Step::Asked { .. } | Step::Paid | Step::End | Step::Look => None,
        })
        .collect();
    if reasons.is_empty() {
        return Ok(HashMap::new());
    }
    let mut ids: Vec<&str> = reasons.keys().copied().collect();
    ids.sort_unstable();
    let (locked, unreadable) = orders::lock_each(tx, &ids).await?;
    let guards = Guards::read(tx, &ids).await?;
    let now = tx.now().0;
    let mut outcomes: HashMap<OrderId, Stepped> = locked
        .iter()
        .map(|order| (order.order_id.clone(), cancellation(order, &guards, now)))
        .collect();
    for (order, _) in steps {
        let id = order.order_id.as_str();
        if unreadable.iter().any(|error| error.is_about(id)) {
            outcomes.insert(order.order_id.clone(), Stepped::Unreadable);
        }
    }
    let mut chosen: Vec<&str> = outcomes
        .iter()
        .filter(|(_, stepped)| **stepped == Stepped::Cancelled)
        .map(|(id, _)| id.as_str())
        .collect();
    chosen.sort_unstable();
    let advanced = advance(tx, &chosen).await?;
    let prices: HashMap<&str, (Amount, Currency)> = locked
        .iter()
        .map(|order| (order.order_id.as_str(), order.price()))
        .collect();
    let rows = advanced.iter().map(|row| {
        let price = prices.get(row.order_id.as_str()).copied();
        Ok(NewTransition {
            source: Source::Reconciliation,
            actor: SELF_ACTOR,
            reason: reasons.get(row.order_id.as_str()).copied(),
            ..NewTransition::step(
                OrderEvent::Cancel,
                row,
                price.ok_or(Error::Raced("matching cancelled orders"))?,
            )
        })
    });
    let rows = rows.collect::<Result<Vec<_>, Error>>()?;
    transitions::insert(tx, &rows).await?;
    Ok(outcomes)
}

fn cancellation(order: &Order, guards: &Guards, now: OffsetDateTime) -> Stepped {
    if order.status != OrderStatus::NotPaid {
        return Stepped::Raced;
    }
    match guards.forbid(order) {
        Some(Forbidden::WasPaid) => Stepped::Inconsistent,
        Some(Forbidden::MoneyHeld) => Stepped::MoneyHeld,
        None if now < order.pay_by => Stepped::NotYet,
        None => Stepped::Cancelled,
    }
}

async fn advance(tx: &mut Tx, chosen: &[&str]) -> Result<Vec<Advanced>, Error> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let Transition { from, to } = Transition::of(OrderEvent::Cancel);
    let now = tx.now();
    let ids = json(chosen.iter().copied());
    let advanced = fetch_all!(
        tx.conn(),
        Checked<Advanced>,
        sql::orders::CANCEL,
        ids.as_str(),
        from.as_str(),
        to.as_str(),
        now,
    )
    .map_err(doing("cancelling orders"))?;
    let (advanced, unreadable) = sort_out(advanced);
    if let Some(error) = unreadable.into_iter().next() {
        return Err(error);
    }
    // Under the locks the guard can't fail; if it did, nothing of this is written.
    if advanced.len() == chosen.len() {
        Ok(advanced)
    } else {
        Err(Error::Raced("cancelling locked orders"))
    }
}
