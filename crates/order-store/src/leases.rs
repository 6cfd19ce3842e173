//! Leases: one holder of a name at a time, as rows of the database.
//!
//! Leases save work and put it in order; correctness never depends on them: writes under a lease are guarded as well.

use std::time::Duration;

use crate::error::{Error, doing};
use crate::run::{execute, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;
use crate::tx::Tx;

/// A lease that a holder wants, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its name.
    pub name: &'static str,
    /// The holder: a unique id.
    pub holder: String,
    /// How long it is held without being renewed.
    pub ttl: Duration,
}

impl Store {
    /// Takes a lease that is free, has run out, is held by this holder already, or lasts longer than any
    /// holder could have taken it for. Returns whether it is held now.
    pub async fn take_lease(&self, lease: &Lease) -> Result<bool, Error> {
        self.write("leasing", lease.clone(), take).await
    }

    /// Renews a lease, unless it was taken over or ended since. Unlike
    /// [`Self::take_lease`] it never begins a new term.
    pub async fn renew_lease(&self, lease: &Lease) -> Result<bool, Error> {
        self.write("leasing", lease.clone(), renew).await
    }

    /// Gives a lease back before it runs out.
    pub async fn release_lease(&self, lease: &Lease) -> Result<(), Error> {
        self.write("leasing", lease.clone(), release).await
    }

    /// Takes a lease from any holder, which writes nothing under it any more.
    pub async fn seize_lease(&self, lease: &Lease) -> Result<(), Error> {
        self.write("leasing", lease.clone(), seize).await
    }

    /// The current holder of a lease.
    pub async fn lease_holder(&self, name: &'static str) -> Result<Option<String>, Error> {
        self.snapshot("reading a lease", name, holder).await
    }
}

async fn holder(tx: &mut Tx, name: &&'static str) -> Result<Option<String>, Error> {
    let now = tx.now();
    let held = fetch_all!(tx.conn(), (String,), sql::leases::HELD, *name, now);
    let held = held.map_err(doing("reading a lease"))?.pop();
    Ok(held.map(|(holder,)| holder))
}

/// What is held beyond this was held by another clock: the database's was ahead and was set back, or
/// the row was edited by hand. Twice the time, since the holder's transaction may have begun later than
/// this one.
pub(crate) fn too_far(tx: &Tx, ttl: Duration) -> Ts {
    tx.now().plus(2 * ttl)
}

/// Takes a lease inside a transaction.
pub(crate) async fn take(tx: &mut Tx, lease: &Lease) -> Result<bool, Error> {
    let now = tx.now();
    let (holder, until) = (lease.holder.as_str(), now.plus(lease.ttl));
    let far = too_far(tx, lease.ttl);
    // Only for the log.
    let beyond = fetch_all!(
        tx.conn(),
        (String,),
        sql::leases::BEYOND,
        lease.name,
        holder,
        far
    );
    let beyond = beyond.map_err(doing("looking at a lease"))?.pop();
    let taken = execute!(
        tx.conn(),
        sql::leases::TAKE,
        lease.name,
        holder,
        until,
        now,
        far
    );
    let taken = taken.map_err(doing("taking a lease"))? == 1;
    if let (Some((from,)), true) = (beyond, taken) {
        tracing::warn!(
            lease = lease.name,
            from,
            "lease taken over: it was held for longer than is possible, as when the database's clock is set back"
        );
    }
    Ok(taken)
}

/// Takes a lease inside a transaction from a holder that does nothing under it. If the holder changes
/// meanwhile, that is a lost race.
pub(crate) async fn take_from_idle(tx: &mut Tx, lease: &Lease) -> Result<(), Error> {
    let until = tx.now().plus(lease.ttl);
    let holder = fetch_all!(tx.conn(), (String,), sql::leases::HOLDER, lease.name);
    let holder = holder.map_err(doing("looking at a lease"))?.pop();
    let (from,) = holder.ok_or(Error::Raced("looking for the holder of a lease"))?;
    let taken = execute!(
        tx.conn(),
        sql::leases::TAKE_FROM,
        lease.name,
        lease.holder.as_str(),
        until,
        from.as_str()
    );
    if taken.map_err(doing("taking a lease from its holder"))? == 0 {
        return Err(Error::Raced("taking a lease from its holder"));
    }
    tracing::warn!(
        lease = lease.name,
        from,
        "lease taken over: its holder has no run"
    );
    Ok(())
}

/// Renews a lease inside a transaction: it can't be taken over before the transaction ends.
pub(crate) async fn renew(tx: &mut Tx, lease: &Lease) -> Result<bool, Error> {
    let until = tx.now().plus(lease.ttl);
    execute!(
        tx.conn(),
        sql::leases::RENEW,
        lease.name,
        lease.holder.as_str(),
        until
    )
    .map(|renewed| renewed == 1)
    .map_err(doing("renewing a lease"))
}

/// Ends a lease inside a transaction, if this holder has it.
pub(crate) async fn release(tx: &mut Tx, lease: &Lease) -> Result<(), Error> {
    let holder = lease.holder.as_str();
    execute!(tx.conn(), sql::leases::RELEASE, lease.name, holder)
        .map(drop)
        .map_err(doing("releasing a lease"))
}

/// Takes a lease from any holder, inside a transaction.
pub(crate) async fn seize(tx: &mut Tx, lease: &Lease) -> Result<(), Error> {
    let (holder, until) = (lease.holder.as_str(), tx.now().plus(lease.ttl));
    execute!(tx.conn(), sql::leases::SEIZE, lease.name, holder, until)
        .map(drop)
        .map_err(doing("taking a lease from its holder"))
}
