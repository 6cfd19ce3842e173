//! Every statement, as a constant. Where the dialects differ, both stand side by side.
//!
//! PostgreSQL takes batches as arrays through `unnest`, SQLite as one JSON array of arrays
//! through `json_each`.

pub(crate) mod audit;
pub(crate) mod idempotency;
pub(crate) mod ops;
pub(crate) mod orders;
pub(crate) mod outbox;
pub(crate) mod reconcile;

use crate::conn::Sql;

/// READ COMMITTED is what the guards are written for, whatever the server's default is. The
/// limits hold for this transaction only, so a pooler in between is no problem.
pub(crate) const BEGIN_WRITE: Sql = Sql {
    postgres: "
        BEGIN ISOLATION LEVEL READ COMMITTED;
        SET LOCAL statement_timeout = '5s';
        SET LOCAL lock_timeout = '2s';
        SET LOCAL idle_in_transaction_session_timeout = '10s';
        SET LOCAL tcp_user_timeout = '15s'",
    // Deferred, a read before the first write would fail with BUSY_SNAPSHOT at once.
    sqlite: "BEGIN IMMEDIATE",
};

pub(crate) const BEGIN_SNAPSHOT: Sql = Sql {
    postgres: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    sqlite: "BEGIN",
};

pub(crate) const COMMIT: &str = "COMMIT";
pub(crate) const ROLLBACK: &str = "ROLLBACK";

pub(crate) const CLOCK: Sql = Sql {
    postgres: "SELECT clock_timestamp()",
    sqlite: "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
};

pub(crate) const PING: Sql = Sql {
    postgres: "SELECT 1::bigint",
    sqlite: "SELECT 1",
};

pub(crate) const ORDER_INSERT: Sql = Sql::both(
    "
    INSERT INTO orders
           (order_id, status, amount, currency, version, pay_by, created_at, updated_at)
    VALUES ($1, $2, $3, $4, 1, $5, $6, $6)
        ON CONFLICT DO NOTHING",
);

pub(crate) const ORDER_GET: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id
      FROM orders
     WHERE order_id = $1",
);

/// Locks in key order: every writer does.
pub(crate) const ORDERS_LOCK: Sql = Sql {
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

/// The heart: the guard sits on the target row, so a concurrent change is seen after the wait
/// for its lock. `$6` expected, `$7` new status.
pub(crate) const ORDERS_PAY: Sql = Sql {
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
     RETURNING order_id, version, updated_at",
};

/// `$2` expected, `$3` new status.
pub(crate) const ORDER_ADVANCE: Sql = Sql {
    postgres: "
        UPDATE orders
           SET status = $3, version = version + 1, updated_at = GREATEST(updated_at, $4)
         WHERE order_id = $1
           AND status   = $2
     RETURNING order_id, version, updated_at",
    sqlite: "
        UPDATE orders
           SET status = $3, version = version + 1, updated_at = MAX(updated_at, $4)
         WHERE order_id = $1
           AND status   = $2
     RETURNING order_id, version, updated_at",
};

/// A rival's uncommitted claim is waited for: it rolls back and the key is ours, or it commits
/// and the payment is known.
pub(crate) const PAYMENTS_CLAIM: Sql = Sql {
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

pub(crate) const PAYMENTS_KNOWN: Sql = Sql {
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

/// `$5` (SQLite `$2`) is the verdict the payments were stored with so far.
pub(crate) const PAYMENTS_JUDGE: Sql = Sql {
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

/// Waiting payments whose order exists, locked in the order in which they are judged.
pub(crate) const PAYMENTS_WAITING: Sql = Sql {
    postgres: "
        SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
               p.currency, p.occurred_at, p.received_at, p.source
          FROM payments AS p
         WHERE p.order_id = ANY($1)
           AND p.verdict = 'WAITING_FOR_ORDER'
           AND EXISTS (SELECT FROM orders AS o WHERE o.order_id = p.order_id)
         ORDER BY p.received_at, p.provider, p.transaction_id
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
           AND EXISTS (SELECT 1 FROM orders AS o WHERE o.order_id = p.order_id)
         ORDER BY p.received_at, p.provider, p.transaction_id",
};

/// Orders that exist and still have a payment waiting that nobody closed.
pub(crate) const ORDERS_STRANDED: Sql = Sql::both(
    "
    SELECT DISTINCT p.order_id
      FROM payments AS p
      JOIN orders AS o ON o.order_id = p.order_id
     WHERE p.verdict = 'WAITING_FOR_ORDER'
       AND p.verdict <> 'APPLIED'
       AND NOT EXISTS (SELECT 1
                         FROM payment_exceptions AS e
                        WHERE e.order_id = p.order_id
                          AND e.verdict = 'WAITING_FOR_ORDER'
                          AND e.provider = p.provider
                          AND e.transaction_id = p.transaction_id
                          AND e.kind = p.kind
                          AND e.state = 'closed'
                          AND e.resolution <> 'settled')
     ORDER BY p.order_id
     LIMIT $1",
);

/// The payments of an order, oldest first: the applied one is found through the order, the
/// others through their index.
pub(crate) const PAYMENTS_OF_ORDER: Sql = Sql::both(
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
     LIMIT $6",
);

/// Payments in key order. A null filter asks for all.
pub(crate) const PAYMENTS_LIST: Sql = Sql {
    postgres: "
        SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
               occurred_at, received_at, source
          FROM payments
         WHERE ($1::text IS NULL OR provider = $1)
           AND ($2::text IS NULL OR transaction_id = $2)
           AND ($3::text IS NULL OR verdict = $3)
           AND (provider, transaction_id, kind) > ($4, $5, $6)
         ORDER BY provider, transaction_id, kind
         LIMIT $7",
    sqlite: "
        SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
               occurred_at, received_at, source
          FROM payments
         WHERE ($1 IS NULL OR provider = $1)
           AND ($2 IS NULL OR transaction_id = $2)
           AND ($3 IS NULL OR verdict = $3)
           AND (provider, transaction_id, kind) > ($4, $5, $6)
         ORDER BY provider, transaction_id, kind
         LIMIT $7",
};

/// The providers there are, each found by one look into the key.
pub(crate) const PAYMENTS_PROVIDERS: Sql = Sql::both(
    "
    WITH RECURSIVE seen (provider) AS (
        SELECT min(provider) FROM payments
         UNION ALL
        SELECT (SELECT min(p.provider) FROM payments AS p WHERE p.provider > seen.provider)
          FROM seen
         WHERE seen.provider IS NOT NULL)
    SELECT provider FROM seen WHERE provider IS NOT NULL",
);

pub(crate) const TRANSITIONS_INSERT: Sql = Sql {
    postgres: "
        INSERT INTO transitions
               (order_id, version, from_status, to_status, event, source, actor, reason,
                provider, transaction_id, at)
        SELECT order_id, version, from_status, to_status, event, source, actor, reason,
               provider, transaction_id, at
          FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                      $7::text[], $8::text[], $9::text[], $10::text[], $11::timestamptz[])
               AS f (order_id, version, from_status, to_status, event, source, actor, reason,
                     provider, transaction_id, at)",
    sqlite: "
        INSERT INTO transitions
               (order_id, version, from_status, to_status, event, source, actor, reason,
                provider, transaction_id, at)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10
          FROM json_each($1)",
};

pub(crate) const REFUSAL_INSERT: Sql = Sql::both(
    "
    INSERT INTO refusals
           (order_id, version, event, reason, provider, transaction_id, source, actor, at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT DO NOTHING",
);

/// Transitions and refusals, oldest first: a refusal follows the version it met.
pub(crate) const HISTORY: Sql = Sql::both(
    "
    SELECT version, rank, from_status, to_status, event, source, actor, reason, provider,
           transaction_id, at
      FROM (SELECT version, CAST(0 AS bigint) AS rank, from_status, to_status, event, source, actor, reason,
                   coalesce(provider, '') AS provider,
                   coalesce(transaction_id, '') AS transaction_id, at
              FROM transitions
             WHERE order_id = $1
             UNION ALL
            SELECT version, CAST(1 AS bigint) AS rank, NULL AS from_status, NULL AS to_status, event, source,
                   actor, reason, provider, transaction_id, at
              FROM refusals
             WHERE order_id = $1) AS h
     WHERE (version, rank, at, event, coalesce(reason, ''), provider, transaction_id)
         > ($2, $3, $4, $5, $6, $7, $8)
     ORDER BY version, rank, at, event, coalesce(reason, ''), provider, transaction_id
     LIMIT $9",
);

pub(crate) const EXCEPTION_INSERT: Sql = Sql::both(
    "
    INSERT INTO payment_exceptions
           (id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
            expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, opened_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        ON CONFLICT DO NOTHING",
);

/// Exceptions that a person closed.
pub(crate) const EXCEPTIONS_CLOSED: Sql = Sql {
    postgres: "
        SELECT id FROM payment_exceptions
         WHERE id = ANY($1) AND state = 'closed' AND resolution <> 'settled'",
    sqlite: "
        SELECT id FROM payment_exceptions
         WHERE id IN (SELECT value FROM json_each($1)) AND state = 'closed'
           AND resolution <> 'settled'",
};

pub(crate) const EXCEPTIONS_SETTLE: Sql = Sql {
    postgres: "
        UPDATE payment_exceptions
           SET state = 'closed', resolution = 'settled', closed_by = $2, closed_at = $3
         WHERE id = ANY($1) AND state = 'open'",
    sqlite: "
        UPDATE payment_exceptions
           SET state = 'closed', resolution = 'settled', closed_by = $2, closed_at = $3
         WHERE id IN (SELECT value FROM json_each($1)) AND state = 'open'",
};

pub(crate) const DEAD_LETTER_INSERT: Sql = Sql::both(
    "
    INSERT INTO dead_letters
           (id, stream, subject, sequence, headers, body, reason, detail, received_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT DO NOTHING",
);

pub(crate) const CHECK_INSERT: Sql = Sql::both(
    "
    INSERT INTO checks (order_id, next_check_at, ask_at, pause_ms)
    VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING",
);

pub(crate) const GAUGE_EXCEPTIONS: Sql = Sql::both(
    "SELECT verdict, count(*) FROM payment_exceptions WHERE state = 'open' GROUP BY verdict",
);

pub(crate) const GAUGE_DEAD_LETTERS: Sql =
    Sql::both("SELECT count(*) FROM dead_letters WHERE state = 'open'");

pub(crate) const MIGRATIONS_EXIST: Sql = Sql {
    postgres: "SELECT (to_regclass('_sqlx_migrations') IS NOT NULL)::int::bigint",
    sqlite: "SELECT count(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
};

pub(crate) const MIGRATIONS_APPLIED: Sql =
    Sql::both("SELECT version FROM _sqlx_migrations WHERE success");

/// Every statement that is prepared, by name, for the test that prepares them all.
#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = &[
    ("CLOCK", CLOCK),
    ("PING", PING),
    ("ORDER_INSERT", ORDER_INSERT),
    ("ORDER_GET", ORDER_GET),
    ("ORDERS_LOCK", ORDERS_LOCK),
    ("ORDERS_PAY", ORDERS_PAY),
    ("ORDER_ADVANCE", ORDER_ADVANCE),
    ("PAYMENTS_CLAIM", PAYMENTS_CLAIM),
    ("PAYMENTS_KNOWN", PAYMENTS_KNOWN),
    ("PAYMENTS_JUDGE", PAYMENTS_JUDGE),
    ("PAYMENTS_WAITING", PAYMENTS_WAITING),
    ("ORDERS_STRANDED", ORDERS_STRANDED),
    ("PAYMENTS_OF_ORDER", PAYMENTS_OF_ORDER),
    ("PAYMENTS_LIST", PAYMENTS_LIST),
    ("PAYMENTS_PROVIDERS", PAYMENTS_PROVIDERS),
    ("TRANSITIONS_INSERT", TRANSITIONS_INSERT),
    ("REFUSAL_INSERT", REFUSAL_INSERT),
    ("HISTORY", HISTORY),
    ("EXCEPTION_INSERT", EXCEPTION_INSERT),
    ("EXCEPTIONS_CLOSED", EXCEPTIONS_CLOSED),
    ("EXCEPTIONS_SETTLE", EXCEPTIONS_SETTLE),
    ("DEAD_LETTER_INSERT", DEAD_LETTER_INSERT),
    ("CHECK_INSERT", CHECK_INSERT),
    ("GAUGE_EXCEPTIONS", GAUGE_EXCEPTIONS),
    ("GAUGE_DEAD_LETTERS", GAUGE_DEAD_LETTERS),
    ("MIGRATIONS_EXIST", MIGRATIONS_EXIST),
    ("MIGRATIONS_APPLIED", MIGRATIONS_APPLIED),
];
