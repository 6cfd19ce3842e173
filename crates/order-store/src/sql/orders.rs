//! Statements on `orders`.

use super::Sql;

pub(crate) const INSERT: Sql = Sql::both(
    "
    INSERT INTO orders
           (order_id, status, amount, currency, version, pay_by, created_at, updated_at)
    VALUES ($1, $2, $3, $4, 1, $5, $6, $6)
        ON CONFLICT DO NOTHING",
);

pub(crate) const GET: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id
      FROM orders
     WHERE order_id = $1",
);

/// Orders whose ids are at or behind `$1` and before `$2`: those with a prefix.
pub(crate) const BETWEEN: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id
      FROM orders
     WHERE order_id >= $1
       AND order_id < $2
     ORDER BY order_id
     LIMIT $3",
);

/// Those of these orders that are there.
pub(crate) const GET_EACH: Sql = Sql {
    postgres: "
        SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
               paid_provider, paid_transaction_id
          FROM orders
         WHERE order_id = ANY($1)",
    sqlite: "
        SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
               paid_provider, paid_transaction_id
          FROM orders
         WHERE order_id IN (SELECT value FROM json_each($1))",
};

/// Locks in key order: every writer does.
pub(crate) const LOCK: Sql = Sql {
    postgres: "
        SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
               paid_provider, paid_transaction_id
          FROM orders
         WHERE order_id = ANY($1)
         ORDER BY order_id
           FOR UPDATE",
    // The transaction holds the only write lock.
    sqlite: "
        SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
               paid_provider, paid_transaction_id
          FROM orders
         WHERE order_id IN (SELECT value FROM json_each($1))
         ORDER BY order_id",
};

/// Orders that another transaction has locked now.
pub(crate) const LOCKED: Sql = Sql {
    postgres: "
        SELECT order_id
          FROM orders
         WHERE order_id = ANY($1)
        EXCEPT
        SELECT order_id
          FROM (SELECT order_id FROM orders WHERE order_id = ANY($1) FOR UPDATE SKIP LOCKED) AS free",
    // It has one lock for all.
    sqlite: "SELECT order_id FROM orders WHERE order_id IN (SELECT value FROM json_each($1)) AND false",
};

/// The heart: the guard sits on the target row, so a concurrent change is seen after the wait
/// for its lock. `$6` expected, `$7` new status. A version that has no next one can't be read, and is
/// no fault of the payment.
pub(crate) const PAY: Sql = Sql {
    postgres: "
        UPDATE orders AS o
           SET status = $7, version = o.version + 1, updated_at = GREATEST(o.updated_at, $8),
               paid_provider = f.provider, paid_transaction_id = f.transaction_id
          FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[])
               AS f (order_id, provider, transaction_id, amount, currency)
         WHERE o.order_id = f.order_id
           AND o.status   = $6
           AND o.amount   = f.amount
           AND o.currency = f.currency
           AND o.version  < 9223372036854775807
     RETURNING o.order_id, o.version, o.updated_at",
    sqlite: "
        UPDATE orders
           SET status = $3, version = orders.version + 1, updated_at = MAX(orders.updated_at, $4),
               paid_provider = f.provider, paid_transaction_id = f.transaction_id
          FROM (SELECT value ->> 0 AS order_id, value ->> 1 AS provider,
                       value ->> 2 AS transaction_id, value ->> 3 AS amount,
                       value ->> 4 AS currency
                  FROM json_each($1)) AS f
         WHERE orders.order_id = f.order_id
           AND orders.status   = $2
           AND orders.amount   = f.amount
           AND orders.currency = f.currency
           AND orders.version  < 9223372036854775807
     RETURNING order_id, version, updated_at",
};

/// `$2` expected, `$3` new status.
pub(crate) const ADVANCE: Sql = Sql::both(
    "
    UPDATE orders
       SET status = $3, version = version + 1, updated_at = CASE WHEN updated_at > $4 THEN updated_at ELSE $4 END
     WHERE order_id = $1
       AND status   = $2
     RETURNING order_id, version, updated_at",
);

/// A person takes a mismatch for payment: the guard is the status alone.
pub(crate) const ACCEPT: Sql = Sql::both(
    "
    UPDATE orders
       SET status = $3, version = version + 1, updated_at = CASE WHEN updated_at > $4 THEN updated_at ELSE $4 END,
           paid_provider = $5, paid_transaction_id = $6
     WHERE order_id = $1
       AND status   = $2
     RETURNING order_id, version, updated_at",
);

/// `$2` expected, `$3` new status. The guard is on the target row here as everywhere.
pub(crate) const CANCEL: Sql = Sql {
    postgres: "
        UPDATE orders
           SET status = $3, version = version + 1, updated_at = GREATEST(updated_at, $4)
         WHERE order_id IN (SELECT value FROM json_array_elements_text($1::json))
           AND status = $2
           AND paid_provider IS NULL
     RETURNING order_id, version, updated_at",
    sqlite: "
        UPDATE orders
           SET status = $3, version = version + 1, updated_at = MAX(updated_at, $4)
         WHERE order_id IN (SELECT value FROM json_each($1))
           AND status = $2
           AND paid_provider IS NULL
     RETURNING order_id, version, updated_at",
};

/// Why orders are not cancelled, as of now: money that waits for a person, or for its order if no
/// person gave it up, and a step that paid the order although its status says otherwise. Each is a scalar asked per row: an
/// EXISTS here can be planned as one hash over the whole table.
pub(crate) const CANCEL_GUARDS: Sql = Sql {
    postgres: "
        SELECT f.value AS order_id,
               coalesce((SELECT 1::bigint FROM payments AS p
                          WHERE p.order_id = f.value AND p.verdict = 'WAITING_FOR_ORDER'
                            AND NOT EXISTS (SELECT FROM payment_exceptions AS e
                                             WHERE e.order_id = p.order_id
                                               AND e.verdict = 'WAITING_FOR_ORDER'
                                               AND e.provider = p.provider
                                               AND e.transaction_id = p.transaction_id
                                               AND e.kind = p.kind AND e.state = 'closed'
                                               AND e.resolution IN ('refunded', 'written_off'))
                          LIMIT 1),
                        (SELECT 1::bigint FROM payment_exceptions
                          WHERE order_id = f.value AND state = 'open' AND kind = 'succeeded'
                            AND verdict NOT IN ('NOT_LIVE', 'CONFLICTING_CONTENT')
                          LIMIT 1),
                        0) AS money_held,
               coalesce((SELECT 1::bigint FROM transitions
                          WHERE order_id = f.value AND version > 1 AND event = 'pay'
                          LIMIT 1),
                        0) AS was_paid
          FROM json_array_elements_text($1::json) AS f",
    sqlite: "
        SELECT f.value AS order_id,
               coalesce((SELECT 1 FROM payments AS p
                          WHERE p.order_id = f.value AND p.verdict <> 'APPLIED'
                            AND +p.verdict = 'WAITING_FOR_ORDER'
                            AND NOT EXISTS (SELECT 1 FROM payment_exceptions AS e
                                             WHERE e.order_id = p.order_id
                                               AND e.verdict = 'WAITING_FOR_ORDER'
                                               AND e.provider = p.provider
                                               AND e.transaction_id = p.transaction_id
                                               AND e.kind = p.kind AND e.state = 'closed'
                                               AND e.resolution IN ('refunded', 'written_off'))
                          LIMIT 1),
                        (SELECT 1 FROM payment_exceptions
                          WHERE order_id = f.value AND state = 'open' AND kind = 'succeeded'
                            AND verdict NOT IN ('NOT_LIVE', 'CONFLICTING_CONTENT')
                          LIMIT 1),
                        0) AS money_held,
               coalesce((SELECT 1 FROM transitions
                          WHERE order_id = f.value AND version > 1 AND event = 'pay'
                          LIMIT 1),
                        0) AS was_paid
          FROM json_each($1) AS f",
};

/// Orders behind `($1, $2)`, created until `$3`, oldest first.
pub(crate) const LIST: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id
      FROM orders
     WHERE (created_at, order_id) > ($1, $2)
       AND created_at <= $3
     ORDER BY created_at, order_id
     LIMIT $4 OFFSET $5",
);

/// The same, but only `$4` orders are looked at, and of those only the ones in status `$5` are
/// returned, and the last one if it is the `$4`th: where the next look begins. No index leads to
/// a status: it would have to be written by every payment.
pub(crate) const IN_STATUS: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id, place
      FROM (SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
                   paid_provider, paid_transaction_id,
                   row_number() OVER (ORDER BY created_at, order_id) AS place
              FROM (SELECT order_id, status, amount, currency, version, pay_by, created_at,
                           updated_at, paid_provider, paid_transaction_id
                      FROM orders
                     WHERE (created_at, order_id) > ($1, $2)
                       AND created_at <= $3
                     ORDER BY created_at, order_id
                     LIMIT $4 OFFSET $7) AS looked_at) AS numbered
     WHERE status = $5 OR place = $4
     ORDER BY created_at, order_id
     LIMIT $6",
);

/// The versions of these orders.
pub(crate) const VERSIONS: Sql = Sql {
    postgres: "SELECT order_id, version FROM orders WHERE order_id = ANY($1)",
    sqlite: "
        SELECT order_id, version FROM orders
         WHERE order_id IN (SELECT value FROM json_each($1))",
};

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    INSERT,
    GET,
    BETWEEN,
    GET_EACH,
    LOCK,
    LOCKED,
    PAY,
    ADVANCE,
    ACCEPT,
    CANCEL,
    CANCEL_GUARDS,
    LIST,
    IN_STATUS,
    VERSIONS
];
