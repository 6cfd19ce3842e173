//! Statements on `pacing`: when the payment service may be asked next.

use super::{Sql, locking};

pub(crate) const BEGIN: Sql = Sql::both(
    "
    INSERT INTO pacing (name, next_at, not_before)
    VALUES ($1, $2, $2)
        ON CONFLICT DO NOTHING",
);

pub(crate) const LOCK: Sql = locking!("SELECT next_at, not_before FROM pacing WHERE name = $1");

pub(crate) const RESERVE: Sql = Sql::both("UPDATE pacing SET next_at = $2 WHERE name = $1");

/// The later of two times that the service named holds.
pub(crate) const CLOSE: Sql = Sql::both(
    "
    UPDATE pacing
       SET not_before = CASE WHEN not_before < $2 THEN $2 ELSE not_before END
     WHERE name = $1",
);

pub(crate) const SET: Sql =
    Sql::both("UPDATE pacing SET next_at = $2, not_before = $3 WHERE name = $1");

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![BEGIN, LOCK, RESERVE, CLOSE, SET];
