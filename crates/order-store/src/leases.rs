//! Leases: one holder of a name at a time, as rows of the database.
//!
//! An economy and an order of work, never the reason why something is correct: whoever acts under
//! a lease guards its writes as well.

use std::time::Duration;

use crate::conn::{Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::sql::outbox as sql;
use crate::store::Store;
use crate::ts::Ts;

/// Who wants to hold what, for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What is held.
    pub name: &'static str,
    /// Who holds it: an id that nobody else has.
    pub holder: String,
    /// How long it is held without being renewed.
    pub ttl: Duration,
}

impl Store {
    /// Takes a lease that is free, has run out or is held by this holder already. Returns whether
    /// it is held now.
    pub async fn take_lease(&self, lease: &Lease) -> Result<bool, Error> {
        let lease = lease.clone();
        self.write("leasing", move |tx| {
            let lease = lease.clone();
            Box::pin(async move { take(tx, &lease).await })
        })
        .await
    }

    /// Renews a lease, unless somebody else has taken or ended it since. Unlike
    /// [`Self::take_lease`] it never begins a new term.
    pub async fn renew_lease(&self, lease: &Lease) -> Result<bool, Error> {
        let lease = lease.clone();
        self.write("leasing", move |tx| {
            let lease = lease.clone();
            Box::pin(async move { renew(tx, &lease).await })
        })
        .await
    }

    /// Gives a lease back before it runs out.
    pub async fn release_lease(&self, lease: &Lease) -> Result<(), Error> {
        let lease = lease.clone();
        self.write("leasing", move |tx| {
            let lease = lease.clone();
            Box::pin(async move {
                execute!(
                    tx.conn(),
                    sql::LEASE_RELEASE,
                    lease.name,
                    lease.holder.as_str()
                )
                .map(drop)
                .map_err(doing("releasing a lease"))
            })
        })
        .await
    }

    /// Ends a lease, whoever holds it: nothing is written under it any more. Who lives asks again.
    pub async fn end_lease(&self, name: &'static str) -> Result<(), Error> {
        self.write("leasing", move |tx| {
            Box::pin(async move {
                execute!(tx.conn(), sql::LEASE_END, name)
                    .map(drop)
                    .map_err(doing("ending a lease"))
            })
        })
        .await
    }

    /// Who holds a lease now.
    pub async fn lease_holder(&self, name: &'static str) -> Result<Option<String>, Error> {
        let held = self.snapshot(move |tx| {
            Box::pin(async move {
                let now = tx.now();
                fetch_all!(tx.conn(), (String,), sql::LEASE_HELD, name, now)
                    .map_err(doing("looking at a lease"))
            })
        });
        Ok(held.await?.pop().map(|(holder,)| holder))
    }
}

/// Takes a lease inside a transaction.
pub(crate) async fn take(tx: &mut Tx, lease: &Lease) -> Result<bool, Error> {
    let now = tx.now();
    let (holder, until) = (lease.holder.as_str(), Ts(now.0 + lease.ttl));
    execute!(tx.conn(), sql::LEASE_TAKE, lease.name, holder, until, now)
        .map(|taken| taken == 1)
        .map_err(doing("taking a lease"))
}

/// Renews a lease inside a transaction, which then nobody can take before it ends.
pub(crate) async fn renew(tx: &mut Tx, lease: &Lease) -> Result<bool, Error> {
    let until = Ts(tx.now().0 + lease.ttl);
    execute!(
        tx.conn(),
        sql::LEASE_RENEW,
        lease.name,
        lease.holder.as_str(),
        until
    )
    .map(|renewed| renewed == 1)
    .map_err(doing("renewing a lease"))
}
