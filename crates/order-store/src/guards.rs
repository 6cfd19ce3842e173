//! What forbids a cancellation, whoever wants it.

use std::collections::HashSet;

use crate::conn::{Tx, fetch_all};
use crate::error::{Error, doing};
use crate::orders::{Order, json_array};
use crate::sql::reconcile as sql;

/// Why an order is not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Its rows say that it was paid, though its status doesn't.
    WasPaid,
    /// Money of it waits for a person or for its order.
    MoneyHeld,
}

/// What stands against cancelling orders, read under their locks.
pub(crate) struct Guards {
    money_held: HashSet<String>,
    was_paid: HashSet<String>,
}

impl Guards {
    /// A statement of its own, after the locks: it sees what was committed while they were waited
    /// for.
    pub(crate) async fn read(tx: &mut Tx, ids: &[&str]) -> Result<Self, Error> {
        let ids = json_array(ids);
        let rows = fetch_all!(
            tx.conn(),
            (String, i64, i64),
            sql::CANCEL_GUARDS,
            ids.as_str()
        )
        .map_err(doing("looking for money of orders"))?;
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
