//! Statements on `idempotency_keys`.

use super::{Sql, locking};

pub(crate) const INSERT: Sql = Sql::both(
    "
    INSERT INTO idempotency_keys
           (actor, idempotency_key, request, holder, held_until, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT DO NOTHING",
);

pub(crate) const LOCK: Sql = locking!(
    "
    SELECT request, held_until, created_at, status, headers, body
      FROM idempotency_keys
     WHERE actor = $1 AND idempotency_key = $2"
);

/// For a key whose row is locked.
pub(crate) const TAKE: Sql = Sql::both(
    "
    UPDATE idempotency_keys
       SET request = $3, holder = $4, held_until = $5, created_at = $6,
           status = NULL, headers = NULL, body = NULL
     WHERE actor = $1 AND idempotency_key = $2",
);

/// The guard is the holder: one that lost the key keeps nothing.
pub(crate) const ANSWER: Sql = Sql::both(
    "
    UPDATE idempotency_keys
       SET status = $4, headers = $5, body = $6
     WHERE actor = $1 AND idempotency_key = $2 AND holder = $3 AND status IS NULL",
);

/// Free for the same request; the row stays, so that no other request gets the key.
pub(crate) const RELEASE: Sql = Sql::both(
    "
    UPDATE idempotency_keys
       SET held_until = created_at
     WHERE actor = $1 AND idempotency_key = $2 AND holder = $3 AND status IS NULL",
);

/// Keys older than `$1`, at most `$2` of them.
pub(crate) const PURGE: Sql = Sql::both(
    "
    DELETE FROM idempotency_keys
     WHERE (actor, idempotency_key)
        IN (SELECT actor, idempotency_key
              FROM idempotency_keys
             WHERE created_at < $1
             ORDER BY created_at
             LIMIT $2)",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![INSERT, LOCK, TAKE, ANSWER, RELEASE, PURGE];
