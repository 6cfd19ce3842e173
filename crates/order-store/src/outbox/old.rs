//! What an older version of this service leaves to be published: transitions and exceptions without a row
//! of the outbox, recognized by their empty `published_at`.
//!
//! Both versions may run side by side during an upgrade. Of an order, a version may be theirs and the next
//! one ours, so all that is unpublished of that order goes to the front of the outbox, in its order. The
//! older relays publish nothing meanwhile: their lease is kept away from them.

use std::time::Duration;

use super::by_key::by_key;
use super::exception_line;
use super::front::{Histories, insert_at_the_front};
use crate::error::{Error, doing};
use crate::leases::{self, Lease};
use crate::run::{List, execute, execute_rows, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;
use crate::tx::Tx;

/// How many rows are carried over in one transaction.
const ROWS_MAX: i64 = 1000;

/// The lease of the older relays.
const OLD_LEASE: &str = "relay";

/// The holder that keeps them away.
const NEWER_VERSION: &str = "a newer version";

/// How long older relays stay away when no newer one is left. Longer than its lease.
const OLD_LEASE_TTL: Duration = Duration::from_mins(1);

/// What was carried over in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarriedOver {
    /// Nothing is left.
    Nothing,
    /// This many events; there may be more.
    Events(u64),
    /// Another holder took the lease, or it was ended: nothing was written.
    LeaseLost,
}

impl Store {
    /// Keeps relays of an older version from publishing, for a minute: they would pass over what is in the
    /// outbox.
    pub async fn keep_older_relays_away(&self) -> Result<(), Error> {
        self.write("leasing", old_lease(), leases::seize).await
    }

    /// Carries over some of what an older version left, if the lease is still this holder's; renews it.
    pub async fn carry_over(&self, lease: &Lease) -> Result<CarriedOver, Error> {
        self.carry_over_of(lease, ROWS_MAX).await
    }

    pub(crate) async fn carry_over_of(
        &self,
        lease: &Lease,
        rows_max: i64,
    ) -> Result<CarriedOver, Error> {
        let args = (lease.clone(), rows_max);
        self.write("carrying-over", args, carry_over).await
    }
}

/// The lease of the older relays, held instead of them.
fn old_lease() -> Lease {
    Lease {
        name: OLD_LEASE,
        holder: NEWER_VERSION.to_owned(),
        ttl: OLD_LEASE_TTL,
    }
}

async fn carry_over(tx: &mut Tx, (lease, rows_max): &(Lease, i64)) -> Result<CarriedOver, Error> {
    by_key(tx).await?;
    if !leases::renew(tx, lease).await? {
        return Ok(CarriedOver::LeaseLost);
    }
    leases::seize(tx, &old_lease()).await?;
    let carried = match carry_transitions(tx, *rows_max).await? {
        0 => carry_exceptions(tx, *rows_max).await?,
        carried => carried,
    };
    Ok(match carried {
        0 => CarriedOver::Nothing,
        carried => CarriedOver::Events(carried),
    })
}

async fn carry_transitions(tx: &mut Tx, rows_max: i64) -> Result<u64, Error> {
    let mut orders: Vec<String> =
        fetch_all!(tx.conn(), (String,), sql::transitions::OLD_ORDERS, rows_max)
            .map_err(doing("reading transitions of an older version"))?
            .into_iter()
            .map(|(order_id,)| order_id)
            .collect();
    orders.sort_unstable();
    orders.dedup();
    if orders.is_empty() {
        return Ok(0);
    }
    let lines = Histories::OfOrders(&orders).read(tx).await?;
    let keys: Vec<(String, i64)> = lines
        .iter()
        .map(|line| (line.order_id.clone(), line.version))
        .collect();
    let now = tx.now();
    let events = lines.into_iter().map(|line| line.into_event(now)).collect();
    insert_at_the_front(tx, events).await?;
    mark_transitions(tx, &keys).await?;
    Ok(keys.len() as u64)
}

/// As in the outbox; exactly those that were read: another one may have been committed since.
async fn mark_transitions(tx: &mut Tx, keys: &[(String, i64)]) -> Result<(), Error> {
    execute_rows!(
        tx.conn(),
        sql::transitions::OLD_DONE,
        keys,
        |key| [key.0.as_str(), key.1],
        Ts::IN_THE_OUTBOX,
    )
    .map(drop)
    .map_err(doing("marking transitions of an older version"))
}

async fn carry_exceptions(tx: &mut Tx, rows_max: i64) -> Result<u64, Error> {
    let ids: Vec<String> = fetch_all!(tx.conn(), (String,), sql::exceptions::OLD, rows_max)
        .map_err(doing("reading exceptions of an older version"))?
        .into_iter()
        .map(|(id,)| id)
        .collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let now = tx.now();
    let events = ids.iter().map(|id| (now, exception_line(id))).collect();
    insert_at_the_front(tx, events).await?;
    execute!(
        tx.conn(),
        sql::exceptions::OLD_DONE,
        List(&ids),
        Ts::IN_THE_OUTBOX
    )
    .map_err(doing("marking exceptions of an older version"))?;
    Ok(ids.len() as u64)
}
