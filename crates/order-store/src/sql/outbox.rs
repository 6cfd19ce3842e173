//! Statements of leases and of the outbox: what is not published yet, and its marks.

use crate::conn::Sql;

/// Takes a lease that is free, has run out or is ours; `$4` is now. The guard sits on the row that
/// is in the way, so of two that ask at once one gets it.
pub(crate) const LEASE_TAKE: Sql = Sql::both(
    "
    INSERT INTO leases (name, holder, expires_at)
    VALUES ($1, $2, $3)
        ON CONFLICT (name) DO UPDATE
       SET holder = excluded.holder, expires_at = excluded.expires_at
     WHERE leases.holder = excluded.holder
        OR leases.expires_at <= $4",
);

/// Renews a lease that nobody else has taken meanwhile, and locks it until the end of the
/// transaction: nobody takes it while its holder writes.
pub(crate) const LEASE_RENEW: Sql = Sql::both(
    "
    UPDATE leases
       SET expires_at = $3
     WHERE name   = $1
       AND holder = $2",
);

pub(crate) const LEASE_RELEASE: Sql =
    Sql::both("DELETE FROM leases WHERE name = $1 AND holder = $2");

pub(crate) const LEASE_END: Sql = Sql::both("DELETE FROM leases WHERE name = $1");

pub(crate) const LEASE_HELD: Sql =
    Sql::both("SELECT holder FROM leases WHERE name = $1 AND expires_at > $2");

/// Of each order at most its lowest unpublished version. The sub-select is asked per row, and
/// through the key: an anti-join could be planned over a whole backlog, and with `set_aside IS
/// NULL` the planner walks all of the partial index for every row, because its statistics come
/// from a time when the backlog was short.
pub(crate) const TRANSITIONS_UNPUBLISHED: Sql = Sql::both(
    "
    SELECT t.order_id, t.version, t.from_status, t.to_status, t.source, t.reason, t.provider,
           t.transaction_id, t.at, o.amount, o.currency
      FROM (SELECT order_id, version, from_status, to_status, source, reason, provider,
                   transaction_id, at
              FROM transitions
             WHERE published_at IS NULL
               AND set_aside IS NULL
               AND version = (SELECT min(l.version)
                                FROM transitions AS l
                               WHERE l.order_id = transitions.order_id
                                 AND l.published_at IS NULL
                                 AND coalesce(l.set_aside, '') = '')
             ORDER BY at, order_id, version
             LIMIT $1) AS t
      JOIN orders AS o ON o.order_id = t.order_id
     ORDER BY t.at, t.order_id, t.version",
);

pub(crate) const EXCEPTIONS_UNPUBLISHED: Sql = Sql::both(
    "
    SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
           expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, resolution,
           note, closed_by, opened_at, closed_at
      FROM payment_exceptions
     WHERE published_at IS NULL
       AND set_aside IS NULL
     ORDER BY opened_at, id
     LIMIT $1",
);

/// A mark that is there stays: it says when the event was first known to be published.
pub(crate) const TRANSITIONS_MARK: Sql = Sql {
    postgres: "
        UPDATE transitions AS t
           SET published_at = $3
          FROM unnest($1::text[], $2::bigint[]) AS f (order_id, version)
         WHERE t.order_id = f.order_id
           AND t.version  = f.version
           AND t.published_at IS NULL",
    sqlite: "
        UPDATE transitions
           SET published_at = $2
          FROM (SELECT value ->> 0 AS order_id, value ->> 1 AS version
                  FROM json_each($1)) AS f
         WHERE transitions.order_id = f.order_id
           AND transitions.version  = f.version
           AND transitions.published_at IS NULL",
};

pub(crate) const EXCEPTIONS_MARK: Sql = Sql {
    postgres: "
        UPDATE payment_exceptions
           SET published_at = $2
         WHERE id = ANY($1)
           AND published_at IS NULL",
    sqlite: "
        UPDATE payment_exceptions
           SET published_at = $2
         WHERE id IN (SELECT value FROM json_each($1))
           AND published_at IS NULL",
};

pub(crate) const TRANSITION_SET_ASIDE: Sql = Sql::both(
    "
    UPDATE transitions
       SET set_aside = $3
     WHERE order_id = $1
       AND version  = $2
       AND published_at IS NULL",
);

pub(crate) const EXCEPTION_SET_ASIDE: Sql = Sql::both(
    "
    UPDATE payment_exceptions
       SET set_aside = $2
     WHERE id = $1
       AND published_at IS NULL",
);

/// The last key of a step: the walk over a table goes by its key, in pieces.
pub(crate) const TRANSITIONS_STEP: Sql = Sql::both(
    "
    SELECT order_id, version
      FROM transitions
     WHERE (order_id, version) > ($1, $2)
     ORDER BY order_id, version
     LIMIT 1 OFFSET $3",
);

pub(crate) const TRANSITIONS_AGAIN: Sql = Sql::both(
    "
    UPDATE transitions
       SET published_at = NULL, set_aside = NULL
     WHERE (order_id, version) > ($1, $2)
       AND (order_id, version) <= ($3, $4)
       AND at >= $5
       AND (published_at IS NOT NULL OR set_aside IS NOT NULL)",
);

pub(crate) const EXCEPTIONS_STEP: Sql = Sql::both(
    "
    SELECT opened_at, id
      FROM payment_exceptions
     WHERE (opened_at, id) > ($1, $2)
     ORDER BY opened_at, id
     LIMIT 1 OFFSET $3",
);

pub(crate) const EXCEPTIONS_AGAIN: Sql = Sql::both(
    "
    UPDATE payment_exceptions
       SET published_at = NULL, set_aside = NULL
     WHERE (opened_at, id) > ($1, $2)
       AND (opened_at, id) <= ($3, $4)
       AND (published_at IS NOT NULL OR set_aside IS NOT NULL)",
);

/// At most `$1` of each are counted: a look at the gauges must not walk a long backlog.
pub(crate) const GAUGE_UNPUBLISHED: Sql = Sql::both(
    "
    SELECT (SELECT count(*)
              FROM (SELECT 1 AS one FROM transitions
                     WHERE published_at IS NULL AND set_aside IS NULL
                     LIMIT $1) AS t)
         + (SELECT count(*)
              FROM (SELECT 1 AS one FROM payment_exceptions
                     WHERE published_at IS NULL AND set_aside IS NULL
                     LIMIT $1) AS e)",
);

pub(crate) const GAUGE_UNPUBLISHED_OLDEST: Sql = Sql::both(
    "
    SELECT at
      FROM (SELECT min(at) AS at FROM transitions
             WHERE published_at IS NULL AND set_aside IS NULL
             UNION ALL
            SELECT min(opened_at) AS at FROM payment_exceptions
             WHERE published_at IS NULL AND set_aside IS NULL) AS oldest
     WHERE at IS NOT NULL
     ORDER BY at
     LIMIT 1",
);

pub(crate) const GAUGE_SET_ASIDE: Sql = Sql::both(
    "
    SELECT (SELECT count(*) FROM transitions WHERE set_aside IS NOT NULL)
         + (SELECT count(*) FROM payment_exceptions WHERE set_aside IS NOT NULL)",
);

/// Every statement of this file, by name, for the test that prepares them all.
#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = &[
    ("LEASE_TAKE", LEASE_TAKE),
    ("LEASE_RENEW", LEASE_RENEW),
    ("LEASE_RELEASE", LEASE_RELEASE),
    ("LEASE_END", LEASE_END),
    ("LEASE_HELD", LEASE_HELD),
    ("TRANSITIONS_UNPUBLISHED", TRANSITIONS_UNPUBLISHED),
    ("EXCEPTIONS_UNPUBLISHED", EXCEPTIONS_UNPUBLISHED),
    ("TRANSITIONS_MARK", TRANSITIONS_MARK),
    ("EXCEPTIONS_MARK", EXCEPTIONS_MARK),
    ("TRANSITION_SET_ASIDE", TRANSITION_SET_ASIDE),
    ("EXCEPTION_SET_ASIDE", EXCEPTION_SET_ASIDE),
    ("TRANSITIONS_STEP", TRANSITIONS_STEP),
    ("TRANSITIONS_AGAIN", TRANSITIONS_AGAIN),
    ("EXCEPTIONS_STEP", EXCEPTIONS_STEP),
    ("EXCEPTIONS_AGAIN", EXCEPTIONS_AGAIN),
    ("GAUGE_UNPUBLISHED", GAUGE_UNPUBLISHED),
    ("GAUGE_UNPUBLISHED_OLDEST", GAUGE_UNPUBLISHED_OLDEST),
    ("GAUGE_SET_ASIDE", GAUGE_SET_ASIDE),
];
