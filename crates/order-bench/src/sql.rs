//! Statements of the bench's own: they fill databases, read them past the service, and are the rivals.

/// A statement in both dialects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

/// Orders `$1` to `$2`. With `$3` = 0 all are unpaid; with 1 a quarter each is `NOT_PAID`, `PAID`, `DONE` and
/// `CANCELLED`. Transaction ids don't come in order: `ledger::transaction_id` has the same formula.
pub(crate) const SEED: &[Sql] = &[
    Sql {
        postgres: "
            INSERT INTO orders (order_id, status, amount, currency, version, pay_by, created_at, updated_at,
                                paid_provider, paid_transaction_id)
            SELECT 'OD-' || lpad(i::text, 10, '0'), (ARRAY['NOT_PAID', 'PAID', 'DONE', 'CANCELLED'])[k + 1],
                   1000, 'EUR', (ARRAY[1, 2, 4, 2])[k + 1],
                   now() + interval '1 hour', now(), now(),
                   CASE WHEN k IN (1, 2) THEN 'acme' END,
                   CASE WHEN k IN (1, 2) THEN 'tx-' || lpad((i * 1103515245 % 2147483648)::text, 10, '0') END
              FROM (SELECT i, (i % 4 * $3)::int AS k FROM generate_series($1::bigint, $2::bigint) AS i) AS g",
        sqlite: "
            WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
            INSERT INTO orders (order_id, status, amount, currency, version, pay_by, created_at, updated_at,
                                paid_provider, paid_transaction_id)
            SELECT printf('OD-%010d', i),
                   CASE k WHEN 0 THEN 'NOT_PAID' WHEN 1 THEN 'PAID' WHEN 2 THEN 'DONE' ELSE 'CANCELLED' END,
                   1000, 'EUR', CASE k WHEN 0 THEN 1 WHEN 2 THEN 4 ELSE 2 END,
                   unixepoch() * 1000000 + 3600000000, unixepoch() * 1000000, unixepoch() * 1000000,
                   CASE WHEN k IN (1, 2) THEN 'acme' END,
                   CASE WHEN k IN (1, 2) THEN printf('tx-%010d', i * 1103515245 % 2147483648) END
              FROM (SELECT i, i % 4 * $3 AS k FROM n)",
    },
    Sql {
        postgres: "
            INSERT INTO transitions (order_id, version, from_status, to_status, event, source, actor,
                                     provider, transaction_id, at, published_at)
            SELECT 'OD-' || lpad(i::text, 10, '0'), s.version, s.from_status, s.to_status, s.event,
                   CASE s.event WHEN 'pay' THEN 'event' ELSE 'api' END, 'bench',
                   CASE s.event WHEN 'pay' THEN 'acme' END,
                   CASE s.event WHEN 'pay' THEN 'tx-' || lpad((i * 1103515245 % 2147483648)::text, 10, '0') END,
                   now(), '1970-01-01 00:00:00Z'
              FROM (SELECT i, (i % 4 * $3)::int AS k FROM generate_series($1::bigint, $2::bigint) AS i) AS g
              JOIN (VALUES (0, 1, NULL, 'NOT_PAID', 'create'), (1, 1, NULL, 'NOT_PAID', 'create'),
                           (2, 1, NULL, 'NOT_PAID', 'create'), (3, 1, NULL, 'NOT_PAID', 'create'),
                           (1, 2, 'NOT_PAID', 'PAID', 'pay'), (2, 2, 'NOT_PAID', 'PAID', 'pay'),
                           (2, 3, 'PAID', 'SHIPPED', 'ship'), (2, 4, 'SHIPPED', 'DONE', 'complete'),
                           (3, 2, 'NOT_PAID', 'CANCELLED', 'cancel'))
                   AS s (k, version, from_status, to_status, event) ON s.k = g.k",
        sqlite: "
            WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2),
                 s (k, version, from_status, to_status, event) AS (
                    VALUES (0, 1, NULL, 'NOT_PAID', 'create'), (1, 1, NULL, 'NOT_PAID', 'create'),
                           (2, 1, NULL, 'NOT_PAID', 'create'), (3, 1, NULL, 'NOT_PAID', 'create'),
                           (1, 2, 'NOT_PAID', 'PAID', 'pay'), (2, 2, 'NOT_PAID', 'PAID', 'pay'),
                           (2, 3, 'PAID', 'SHIPPED', 'ship'), (2, 4, 'SHIPPED', 'DONE', 'complete'),
                           (3, 2, 'NOT_PAID', 'CANCELLED', 'cancel'))
            INSERT INTO transitions (order_id, version, from_status, to_status, event, source, actor,
                                     provider, transaction_id, at, published_at)
            SELECT printf('OD-%010d', i), s.version, s.from_status, s.to_status, s.event,
                   CASE s.event WHEN 'pay' THEN 'event' ELSE 'api' END, 'bench',
                   CASE s.event WHEN 'pay' THEN 'acme' END,
                   CASE s.event WHEN 'pay' THEN printf('tx-%010d', i * 1103515245 % 2147483648) END,
                   unixepoch() * 1000000, 0
              FROM n JOIN s ON s.k = i % 4 * $3",
    },
    Sql {
        postgres: "
            INSERT INTO payments (provider, transaction_id, kind, event_id, order_id, amount, currency,
                                  occurred_at, received_at, verdict, source)
            SELECT 'acme', 'tx-' || lpad((i * 1103515245 % 2147483648)::text, 10, '0'), 'succeeded', 'ev-' || i,
                   'OD-' || lpad(i::text, 10, '0'), 1000, 'EUR', now(), now(), 'APPLIED', 'event'
              FROM generate_series($1::bigint, $2::bigint) AS i
             WHERE i % 4 * $3 IN (1, 2)",
        sqlite: "
            WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
            INSERT INTO payments (provider, transaction_id, kind, event_id, order_id, amount, currency,
                                  occurred_at, received_at, verdict, source)
            SELECT 'acme', printf('tx-%010d', i * 1103515245 % 2147483648), 'succeeded', 'ev-' || i,
                   printf('OD-%010d', i), 1000, 'EUR', unixepoch() * 1000000, unixepoch() * 1000000, 'APPLIED', 'event'
              FROM n
             WHERE i % 4 * $3 IN (1, 2)",
    },
    Sql {
        postgres: "
            INSERT INTO checks (order_id, next_check_at, ask_at, pause_ms)
            SELECT 'OD-' || lpad(i::text, 10, '0'), now() + interval '1 day', now() + interval '1 day', 300000 + 0 * $3
              FROM generate_series($1::bigint, $2::bigint) AS i",
        sqlite: "
            WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
            INSERT INTO checks (order_id, next_check_at, ask_at, pause_ms)
            SELECT printf('OD-%010d', i), unixepoch() * 1000000 + 86400000000, unixepoch() * 1000000 + 86400000000,
                   300000 + 0 * $3
              FROM n",
    },
];

/// The payment service is to be asked about every order now.
pub(crate) const ALL_DUE: Sql = Sql {
    postgres: "UPDATE checks SET next_check_at = now() - interval '1 minute', ask_at = now() - interval '1 minute'",
    sqlite: "UPDATE checks SET next_check_at = unixepoch() * 1000000 - 60000000, ask_at = unixepoch() * 1000000 - 60000000",
};

/// Statistics as autovacuum would have them by and by, and no checkpoint left over from what came before.
pub(crate) const REST: Sql = Sql {
    postgres: "ANALYZE; CHECKPOINT",
    sqlite: "ANALYZE; PRAGMA wal_checkpoint(TRUNCATE)",
};

/// What the ledger is compared with, in the order of the keys.
pub(crate) const ORDERS: &str = "SELECT order_id, status, CAST(version AS bigint), paid_transaction_id FROM orders ORDER BY order_id";

/// How many payments have which verdict.
pub(crate) const VERDICTS: &str = "SELECT verdict, count(*) FROM payments GROUP BY verdict";

/// How many exceptions there are.
pub(crate) const EXCEPTIONS: &str = "SELECT count(*) FROM payment_exceptions";

/// How many events aren't published yet, in rows of the outbox.
pub(crate) const UNPUBLISHED: &str = "SELECT CAST(coalesce(sum(events), 0) AS bigint) FROM outbox";

/// How many advances of orders there were, and how many of them left the indexes alone.
pub(crate) const HOT: &str = "
    SELECT n_tup_upd::bigint, n_tup_hot_upd::bigint FROM pg_stat_user_tables WHERE relname = 'orders'";

/// The articles' design: tables of its own, with nothing but what its three statements need.
pub(crate) const ARTICLES_TABLES: Sql = Sql {
    postgres: "
        CREATE TABLE a_orders (order_id text COLLATE \"C\" PRIMARY KEY, status text NOT NULL, amount bigint NOT NULL,
                               updated_at timestamptz NOT NULL);
        CREATE TABLE a_payments (transaction_id text COLLATE \"C\" PRIMARY KEY, order_id text NOT NULL,
                                 amount bigint NOT NULL, at timestamptz NOT NULL);
        CREATE TABLE a_outbox (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, order_id text NOT NULL,
                               event text NOT NULL, at timestamptz NOT NULL)",
    sqlite: "
        CREATE TABLE a_orders (order_id text NOT NULL PRIMARY KEY, status text NOT NULL, amount integer NOT NULL,
                               updated_at integer NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE a_payments (transaction_id text NOT NULL PRIMARY KEY, order_id text NOT NULL,
                                 amount integer NOT NULL, at integer NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE a_outbox (id integer PRIMARY KEY, order_id text NOT NULL, event text NOT NULL,
                               at integer NOT NULL) STRICT",
};

/// Their orders `$1` to `$2`.
pub(crate) const ARTICLES_SEED: Sql = Sql {
    postgres: "
        INSERT INTO a_orders
        SELECT 'OD-' || lpad(i::text, 10, '0'), 'NOT_PAID', 1000, now()
          FROM generate_series($1::bigint, $2::bigint) AS i",
    sqlite: "
        WITH RECURSIVE n (i) AS (SELECT $1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
        INSERT INTO a_orders SELECT printf('OD-%010d', i), 'NOT_PAID', 1000, unixepoch() FROM n",
};

/// Per message, between BEGIN and COMMIT: the guarded update, the payment, the event.
pub(crate) const ARTICLES_ADVANCE: Sql = Sql {
    postgres: "
        UPDATE a_orders SET status = 'PAID', updated_at = now()
         WHERE order_id = $1 AND status = 'NOT_PAID' AND amount = $2",
    sqlite: "
        UPDATE a_orders SET status = 'PAID', updated_at = unixepoch()
         WHERE order_id = $1 AND status = 'NOT_PAID' AND amount = $2",
};
pub(crate) const ARTICLES_PAYMENT: Sql = Sql {
    postgres: "INSERT INTO a_payments VALUES ($1, $2, $3, now()) ON CONFLICT DO NOTHING",
    sqlite: "INSERT INTO a_payments VALUES ($1, $2, $3, unixepoch()) ON CONFLICT DO NOTHING",
};
pub(crate) const ARTICLES_EVENT: Sql = Sql {
    postgres: "INSERT INTO a_outbox (order_id, event, at) VALUES ($1, 'order.paid', now())",
    sqlite: "INSERT INTO a_outbox (order_id, event, at) VALUES ($1, 'order.paid', unixepoch())",
};

/// Paid orders, payments, and events of theirs.
pub(crate) const ARTICLES_DONE: &str = "
    SELECT (SELECT count(*) FROM a_orders WHERE status = 'PAID'), (SELECT count(*) FROM a_payments),
           (SELECT count(*) FROM a_outbox)";

/// The rival of a read over HTTP.
pub(crate) const POINT_SELECT: &str = "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at, paid_provider,
           paid_transaction_id
      FROM orders
     WHERE order_id = $1";
