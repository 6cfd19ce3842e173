//! Statements on `payments`.

use super::{Sql, locking};

/// A rival's uncommitted claim is waited for: it rolls back and the key is ours, or it commits
/// and the payment is known.
pub(crate) const CLAIM: Sql = Sql {
    postgres: "
        INSERT INTO payments
               (provider, transaction_id, kind, event_id, order_id, amount, currency,
                occurred_at, verdict, source, received_at)
        SELECT provider, transaction_id, kind, event_id, order_id, amount, currency,
               occurred_at, verdict, source, $11
          FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[],
                      $7::text[], $8::timestamptz[], $9::text[], $10::text[])
               AS f (provider, transaction_id, kind, event_id, order_id, amount, currency,
                     occurred_at, verdict, source)
            ON CONFLICT DO NOTHING
     RETURNING provider, transaction_id, kind",
    // WHERE true: without it the parser takes ON for a join.
    sqlite: "
        INSERT INTO payments
               (provider, transaction_id, kind, event_id, order_id, amount, currency,
                occurred_at, verdict, source, received_at)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7, value ->> 8, value ->> 9, $2
          FROM json_each($1)
         WHERE true
            ON CONFLICT DO NOTHING
     RETURNING provider, transaction_id, kind",
};

pub(crate) const KNOWN: Sql = Sql {
    postgres: "
        SELECT p.provider, p.transaction_id, p.kind, p.order_id, p.amount, p.currency
          FROM unnest($1::text[], $2::text[], $3::text[]) AS f (provider, transaction_id, kind)
          JOIN payments AS p
            ON p.provider = f.provider AND p.transaction_id = f.transaction_id
           AND p.kind = f.kind",
    sqlite: "
        SELECT p.provider, p.transaction_id, p.kind, p.order_id, p.amount, p.currency
          FROM json_each($1) AS f
          JOIN payments AS p
            ON p.provider = f.value ->> 0 AND p.transaction_id = f.value ->> 1
           AND p.kind = f.value ->> 2",
};

pub(crate) const GET: Sql = Sql::both(
    "
    SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
           occurred_at, received_at, source
      FROM payments
     WHERE provider = $1 AND transaction_id = $2 AND kind = $3",
);

/// Locks a recorded payment; a waiting one could be settled meanwhile.
pub(crate) const LOCK: Sql = locking!(
    "
    SELECT verdict FROM payments
     WHERE provider = $1 AND transaction_id = $2 AND kind = $3"
);

/// `$5` (SQLite `$2`) is the verdict the payments were stored with so far.
pub(crate) const SET_VERDICTS: Sql = Sql {
    postgres: "
        UPDATE payments AS p
           SET verdict = f.verdict
          FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
               AS f (provider, transaction_id, kind, verdict)
         WHERE p.provider = f.provider AND p.transaction_id = f.transaction_id
           AND p.kind = f.kind
           AND p.verdict = $5",
    sqlite: "
        UPDATE payments
           SET verdict = f.verdict
          FROM (SELECT value ->> 0 AS provider, value ->> 1 AS transaction_id,
                       value ->> 2 AS kind, value ->> 3 AS verdict
                  FROM json_each($1)) AS f
         WHERE payments.provider = f.provider AND payments.transaction_id = f.transaction_id
           AND payments.kind = f.kind
           AND payments.verdict = $2",
};

/// Waiting payments whose order exists, after the place `($2, $3, $4)`, locked in the order in which
/// they are judged.
pub(crate) const WAITING: Sql = Sql {
    postgres: "
        SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
               p.currency, p.occurred_at, p.received_at, p.source
          FROM payments AS p
         WHERE p.order_id = ANY($1)
           AND p.verdict = 'WAITING_FOR_ORDER'
           AND (p.received_at, p.provider, p.transaction_id) > ($2, $3, $4)
           AND EXISTS (SELECT FROM orders AS o WHERE o.order_id = p.order_id)
         ORDER BY p.received_at, p.provider, p.transaction_id
         LIMIT $5
           FOR UPDATE OF p",
    // SQLite takes a partial index only if its condition stands there word for word, and the plus
    // keeps it from the index by verdict.
    sqlite: "
        SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
               p.currency, p.occurred_at, p.received_at, p.source
          FROM payments AS p
         WHERE p.order_id IN (SELECT value FROM json_each($1))
           AND p.verdict <> 'APPLIED'
           AND +p.verdict = 'WAITING_FOR_ORDER'
           AND (p.received_at, p.provider, p.transaction_id) > ($2, $3, $4)
           AND EXISTS (SELECT 1 FROM orders AS o WHERE o.order_id = p.order_id)
         ORDER BY p.received_at, p.provider, p.transaction_id
         LIMIT $5",
};

/// The `$4`th waiting payment behind a key, counted from 0.
pub(crate) const WAITING_STEP: Sql = Sql::both(
    "
    SELECT provider, transaction_id, kind
      FROM payments
     WHERE verdict = 'WAITING_FOR_ORDER'
       AND verdict <> 'APPLIED'
       AND (provider, transaction_id, kind) > ($1, $2, $3)
     ORDER BY provider, transaction_id, kind
     LIMIT 1 OFFSET $4",
);

/// Existing orders for which a payment in a range of keys still waits, unless a person closed its exception.
pub(crate) const STRANDED: Sql = Sql::both(
    "
    SELECT DISTINCT p.order_id
      FROM payments AS p
      JOIN orders AS o ON o.order_id = p.order_id
     WHERE p.verdict = 'WAITING_FOR_ORDER'
       AND p.verdict <> 'APPLIED'
       AND (p.provider, p.transaction_id, p.kind) > ($1, $2, $3)
       AND (p.provider, p.transaction_id, p.kind) <= ($4, $5, $6)
       AND NOT EXISTS (SELECT 1
                         FROM payment_exceptions AS e
                        WHERE e.order_id = p.order_id
                          AND e.verdict = 'WAITING_FOR_ORDER'
                          AND e.provider = p.provider
                          AND e.transaction_id = p.transaction_id
                          AND e.kind = p.kind
                          AND e.state = 'closed'
                          AND e.resolution <> 'settled')
     ORDER BY p.order_id",
);

/// Waiting payments received until `$1` in a range of keys, locked: their order doesn't exist, and no exception
/// is open yet.
pub(crate) const OVERDUE: Sql = locking!(
    "
    SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
           p.currency, p.occurred_at, p.received_at, p.source
      FROM payments AS p
     WHERE p.verdict = 'WAITING_FOR_ORDER'
       AND p.verdict <> 'APPLIED'
       AND (p.provider, p.transaction_id, p.kind) > ($2, $3, $4)
       AND (p.provider, p.transaction_id, p.kind) <= ($5, $6, $7)
       AND p.received_at <= $1
       AND NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.order_id = p.order_id)
       AND NOT EXISTS (SELECT 1 FROM payment_exceptions AS e
                        WHERE e.order_id = p.order_id AND e.verdict = p.verdict
                          AND e.provider = p.provider
                          AND e.transaction_id = p.transaction_id AND e.kind = p.kind)
     ORDER BY p.provider, p.transaction_id, p.kind"
);

/// Orders and payments that were reported again: `$1` is `[[order, provider, transaction], …]`.
/// `given_up`: a person closed the exception for the money of this very payment as refunded or
/// written off, and no other exception about it is open.
pub(crate) const REPORTED_AGAIN: Sql = Sql {
    postgres: "
        SELECT o.order_id, o.status, p.provider, p.transaction_id, p.verdict,
               coalesce((SELECT min(CASE WHEN e.state = 'closed' AND e.resolution IN ('refunded', 'written_off')
                                         THEN 1 ELSE 0 END)::bigint
                           FROM payment_exceptions AS e
                          WHERE e.order_id = o.order_id AND e.provider = p.provider
                            AND e.transaction_id = p.transaction_id AND e.kind = p.kind
                            AND e.verdict NOT IN ('NOT_LIVE', 'CONFLICTING_CONTENT')),
                        0) AS given_up
          FROM json_array_elements($1::json) AS f (row)
          JOIN orders AS o ON o.order_id = f.row ->> 0
          JOIN payments AS p
            ON p.provider = f.row ->> 1 AND p.transaction_id = f.row ->> 2
           AND p.kind = 'succeeded'",
    sqlite: "
        SELECT o.order_id, o.status, p.provider, p.transaction_id, p.verdict,
               coalesce((SELECT min(CASE WHEN e.state = 'closed' AND e.resolution IN ('refunded', 'written_off')
                                         THEN 1 ELSE 0 END)
                           FROM payment_exceptions AS e
                          WHERE e.order_id = o.order_id AND e.provider = p.provider
                            AND e.transaction_id = p.transaction_id AND e.kind = p.kind
                            AND e.verdict NOT IN ('NOT_LIVE', 'CONFLICTING_CONTENT')),
                        0) AS given_up
          FROM json_each($1) AS f
          JOIN orders AS o ON o.order_id = f.value ->> 0
          JOIN payments AS p
            ON p.provider = f.value ->> 1 AND p.transaction_id = f.value ->> 2
           AND p.kind = 'succeeded'",
};

/// The payments of an order, oldest first: the applied one is found through the order, the
/// others through their index.
pub(crate) const OF_ORDER: Sql = Sql::both(
    "
    SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
           occurred_at, received_at, source
      FROM (SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
                   occurred_at, received_at, source
              FROM payments
             WHERE order_id = $1 AND verdict <> 'APPLIED'
             UNION ALL
            SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict,
                   p.amount, p.currency, p.occurred_at, p.received_at, p.source
              FROM orders AS o
              JOIN payments AS p
                ON p.provider = o.paid_provider AND p.transaction_id = o.paid_transaction_id
               AND p.kind = 'succeeded' AND p.verdict = 'APPLIED'
             WHERE o.order_id = $1 AND p.order_id = $1) AS of_order
     WHERE (received_at, provider, transaction_id, kind) > ($2, $3, $4, $5)
     ORDER BY received_at, provider, transaction_id, kind
     LIMIT $6 OFFSET $7",
);

/// Payments in key order. A null filter asks for all.
pub(crate) const LIST: Sql = Sql::both(
    "
    SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
           occurred_at, received_at, source
      FROM payments
     WHERE (CAST($1 AS text) IS NULL OR provider = $1)
       AND (CAST($2 AS text) IS NULL OR transaction_id = $2)
       AND (CAST($3 AS text) IS NULL OR verdict = $3)
       AND (provider, transaction_id, kind) > ($4, $5, $6)
     ORDER BY provider, transaction_id, kind
     LIMIT $7 OFFSET $8",
);

/// The payments of a transaction at any provider, with the parameters of the list. The
/// providers there are, each found by one look into the key, lead to them: without a provider the
/// key is of no use. `$1` is null.
pub(crate) const OF_TRANSACTION: Sql = Sql::both(
    "
    WITH RECURSIVE seen (provider) AS (
        SELECT min(provider) FROM payments WHERE CAST($1 AS text) IS NULL
         UNION ALL
        SELECT (SELECT min(p.provider) FROM payments AS p WHERE p.provider > seen.provider)
          FROM seen
         WHERE seen.provider IS NOT NULL)
    SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
           p.currency, p.occurred_at, p.received_at, p.source
      FROM seen
      JOIN payments AS p ON p.provider = seen.provider AND p.transaction_id = $2
     WHERE (CAST($3 AS text) IS NULL OR p.verdict = $3)
       AND (p.provider, p.transaction_id, p.kind) > ($4, $5, $6)
     ORDER BY p.provider, p.transaction_id, p.kind
     LIMIT $7 OFFSET $8",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    CLAIM,
    KNOWN,
    GET,
    LOCK,
    SET_VERDICTS,
    WAITING,
    WAITING_STEP,
    STRANDED,
    OVERDUE,
    REPORTED_AGAIN,
    OF_ORDER,
    LIST,
    OF_TRANSACTION
];
