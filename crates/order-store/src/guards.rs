//! What forbids a cancellation, by a person or by reconciliation.

use std::collections::HashSet;

use crate::error::{Error, doing};
use crate::orders::Order;
use crate::run::{fetch_all, json};
use crate::sql;
use crate::tx::Tx;

/// Why an order is not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Its history says that it was paid, although its status doesn't.
    WasPaid,
    /// A payment for it waits for a person or for the order.
    MoneyHeld,
}

/// The reasons not to cancel orders, read under their locks.
pub(crate) struct Guards {
    money_held: HashSet<String>,
    was_paid: HashSet<String>,
}

impl Guards {
    /// A statement of its own, after the locks: it sees what was committed while they were waited
    /// for.
    pub(crate) async fn read(tx: &mut Tx, ids: &[&str]) -> Result<Self, Error> {
        let ids = json(ids.iter().copied());
        let rows = fetch_all!(
            tx.conn(),
            (String, i64, i64),
            sql::orders::CANCEL_GUARDS,
            ids.as_str()
        )
        .map_err(doing("looking for payments that forbid a cancellation"))?;
        let chosen = |which: fn(&(String, i64, i64)) -> bool| {
            let rows = rows.iter().filter(|row| which(row));
            rows.map(|row| row.0.clone()).collect()
        };
        Ok(Self {
            money_held: chosen(|row| row.1 != 0),
            was_paid: chosen(|row| row.2 != 0),
        })
    }

    /// Why this order is not cancelled, if it isn't.
    pub(crate) fn forbid(&self, order: &Order) -> Option<Forbidden> {
        let id = order.order_id.as_str();
        if order.paid_by.is_some() || self.was_paid.contains(id) {
            Some(Forbidden::WasPaid)
        } else if self.money_held.contains(id) {
            Some(Forbidden::MoneyHeld)
        } else {
            None
        }
    }
}
