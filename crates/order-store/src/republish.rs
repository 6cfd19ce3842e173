//! Publishing again from a point in time.

use time::OffsetDateTime;

use crate::error::{Error, doing};
use crate::leases::{self, Lease};
use crate::outbox::{self, Histories};
use crate::run::fetch_all;
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;
use crate::tx::Tx;

/// Rows walked over in one transaction.
const STEP_MAX: u32 = 5_000;

/// Behind every id: ids are ASCII letters, digits and `. _ : -`.
const BEHIND_EVERY_ID: &str = "~";

/// What is to be published again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Republished {
    /// Transitions.
    pub transitions: u64,
    /// Exceptions.
    pub exceptions: u64,
}

impl Store {
    /// Puts everything since a time to the front of the outbox again; nothing if the lease is lost on the way.
    ///
    /// In steps, each a transaction, all under the lease, so that nothing is published meanwhile: what the outbox
    /// still holds of an order is published after what happened to it before. Done again after a failure,
    /// more is published twice.
    pub async fn republish_since(
        &self,
        lease: &Lease,
        since: OffsetDateTime,
    ) -> Result<Option<Republished>, Error> {
        self.republish_in_steps(lease, since, STEP_MAX).await
    }

    pub(crate) async fn republish_in_steps(
        &self,
        lease: &Lease,
        since: OffsetDateTime,
        step_max: u32,
    ) -> Result<Option<Republished>, Error> {
        let since = Ts::truncated(since);
        let mut done = Republished::default();
        let mut after = Some(String::new());
        while let Some(start) = after {
            let args = (lease.clone(), start, since, step_max);
            let step = self.write("republishing", args, transitions_step);
            let Some((count, next)) = step.await? else {
                return Ok(None);
            };
            done.transitions += count;
            after = next;
        }
        let mut after = Some((since, String::new()));
        while let Some(start) = after {
            let args = (lease.clone(), start, step_max);
            let step = self.write("republishing", args, exceptions_step);
            let Some((count, next)) = step.await? else {
                return Ok(None);
            };
            done.exceptions += count;
            after = next;
        }
        Ok(Some(done))
    }
}

/// One step over the transitions, by whole orders; how many, and where the next step starts, if there is one. Nothing
/// without the lease.
async fn transitions_step(
    tx: &mut Tx,
    (lease, after, since, step_max): &(Lease, String, Ts, u32),
) -> Result<Option<(u64, Option<String>)>, Error> {
    if !leases::renew(tx, lease).await? {
        return Ok(None);
    }
    let next = fetch_all!(
        tx.conn(),
        (String,),
        sql::transitions::STEP,
        after,
        i64::from(*step_max) - 1
    )
    .map_err(doing("reading the history of orders"))?
    .pop()
    .map(|(order_id,)| order_id);
    let until = next.as_deref().unwrap_or(BEHIND_EVERY_ID);
    let lines = Histories::Between(after, until, *since).read(tx).await?;
    let count = lines.len() as u64;
    let now = tx.now();
    let events = lines.into_iter().map(|line| line.into_event(now)).collect();
    outbox::insert_at_the_front(tx, events).await?;
    Ok(Some((count, next)))
}

/// One step over the exceptions, like [`transitions_step`].
async fn exceptions_step(
    tx: &mut Tx,
    (lease, (opened_at, id), step_max): &(Lease, (Ts, String), u32),
) -> Result<Option<(u64, Option<(Ts, String)>)>, Error> {
    if !leases::renew(tx, lease).await? {
        return Ok(None);
    }
    let rows = fetch_all!(
        tx.conn(),
        (Ts, String),
        sql::exceptions::STEP,
        *opened_at,
        id.as_str(),
        i64::from(*step_max)
    )
    .map_err(doing("reading exceptions"))?;
    let count = rows.len() as u64;
    let next = (rows.len() == *step_max as usize)
        .then(|| rows.last().cloned())
        .flatten();
    let events = rows
        .into_iter()
        .map(|(at, id)| (at, outbox::exception_line(&id)))
        .collect();
    outbox::insert_at_the_front(tx, events).await?;
    Ok(Some((count, next)))
}
