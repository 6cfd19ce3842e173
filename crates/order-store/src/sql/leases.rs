//! Statements on `leases`.

use super::Sql;

/// Takes a lease that is free, has run out or is ours, or lasts beyond `$5`, as no lease can; `$4` is
/// now. The guard sits on the row that is in the way, so of two that ask at once one gets it.
pub(crate) const TAKE: Sql = Sql::both(
    "
    INSERT INTO leases (name, holder, expires_at)
    VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE
       SET holder = excluded.holder, expires_at = excluded.expires_at
     WHERE leases.holder = excluded.holder
        OR leases.expires_at <= $4
        OR leases.expires_at > $5",
);

/// Renews a lease that is still held, and locks it until the end of the transaction: it can't be taken over while its
/// holder writes.
pub(crate) const RENEW: Sql = Sql::both(
    "
    UPDATE leases
       SET expires_at = $3
     WHERE name   = $1
       AND holder = $2",
);

pub(crate) const RELEASE: Sql = Sql::both("DELETE FROM leases WHERE name = $1 AND holder = $2");

pub(crate) const HELD: Sql =
    Sql::both("SELECT holder FROM leases WHERE name = $1 AND expires_at > $2");

/// Another holder of a lease beyond `$3`.
pub(crate) const BEYOND: Sql =
    Sql::both("SELECT holder FROM leases WHERE name = $1 AND holder <> $2 AND expires_at > $3");

pub(crate) const HOLDER: Sql = Sql::both("SELECT holder FROM leases WHERE name = $1");

/// Takes a lease from the holder `$4`, if it still is the holder.
pub(crate) const TAKE_FROM: Sql = Sql::both(
    "
    UPDATE leases
       SET holder = $2, expires_at = $3
     WHERE name = $1 AND holder = $4",
);

/// Takes a lease from any holder.
pub(crate) const SEIZE: Sql = Sql::both(
    "
    INSERT INTO leases (name, holder, expires_at)
    VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE
       SET holder = excluded.holder, expires_at = excluded.expires_at",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] =
    super::named![TAKE, RENEW, RELEASE, HELD, BEYOND, HOLDER, TAKE_FROM, SEIZE];
