//! The statements of the audit: each returns what breaks an invariant, as (id, detail).

use super::Sql;

/// Version, number of transitions and highest transition differ.
pub(crate) const A1_COUNT: Sql = Sql::both(
    "
    SELECT o.order_id, 'version ' || o.version || ', ' || coalesce(t.n, 0)
           || ' transitions, the highest is ' || coalesce(t.top, 0)
      FROM orders AS o
      LEFT JOIN (SELECT order_id, count(*) AS n, max(version) AS top
                   FROM transitions GROUP BY order_id) AS t ON t.order_id = o.order_id
     WHERE coalesce(t.n, 0) <> o.version OR coalesce(t.top, 0) <> o.version
     ORDER BY o.order_id",
);

/// History without an order.
pub(crate) const A1_ORPHAN: Sql = Sql::both(
    "
    SELECT t.order_id, 'transition ' || t.version || ' without an order'
      FROM transitions AS t
      LEFT JOIN orders AS o ON o.order_id = t.order_id
     WHERE o.order_id IS NULL
     ORDER BY t.order_id, t.version",
);

/// A step that doesn't start where the one before ended.
pub(crate) const A1_CHAIN: Sql = Sql::both(
    "
    SELECT t.order_id, 'transition ' || t.version || ' starts at ' || coalesce(t.from_status, 'nothing')
           || ', the one before ends at ' || coalesce(p.to_status, 'nothing')
      FROM transitions AS t
      LEFT JOIN transitions AS p ON p.order_id = t.order_id AND p.version = t.version - 1
     WHERE t.version > 1
       AND (p.order_id IS NULL OR t.from_status IS NULL OR p.to_status <> t.from_status)
     ORDER BY t.order_id, t.version",
);

/// The last step doesn't end at the status.
pub(crate) const A1_LAST: Sql = Sql::both(
    "
    SELECT o.order_id, 'status ' || o.status || ', the last transition ends at ' || t.to_status
      FROM orders AS o
      JOIN transitions AS t ON t.order_id = o.order_id AND t.version = o.version
     WHERE t.to_status <> o.status
     ORDER BY o.order_id",
);

/// The different steps there are, to be held against the allow-list.
pub(crate) const STEPS: Sql = Sql::both(
    "
    SELECT CASE WHEN version = 1 THEN CAST(1 AS bigint) ELSE CAST(0 AS bigint) END AS first,
           coalesce(from_status, '') AS from_status, coalesce(event, '') AS event,
           coalesce(to_status, '') AS to_status
      FROM transitions
     GROUP BY 1, 2, 3, 4
     ORDER BY 1, 2, 3, 4",
);

/// Where an illegal step was taken.
pub(crate) const STEP_TAKEN: Sql = Sql::both(
    "
    SELECT order_id, 'transition ' || version || ': ' || coalesce(from_status, 'nothing')
           || ' to ' || coalesce(to_status, 'nothing') || ' by ' || coalesce(event, 'nothing')
      FROM transitions
     WHERE CASE WHEN version = 1 THEN 1 ELSE 0 END = $1
       AND coalesce(from_status, '') = $2 AND coalesce(event, '') = $3
       AND coalesce(to_status, '') = $4
     ORDER BY order_id, version",
);

/// Paid without exactly one applied success equal to `paid_by`, or the other way round.
pub(crate) const A2: Sql = Sql::both(
    "
    SELECT o.order_id, 'status ' || o.status || ', paid by '
           || coalesce(o.paid_provider || '/' || o.paid_transaction_id, 'nothing') || ', '
           || coalesce(a.n, 0) || ' applied payments'
           || coalesce(', the first is ' || a.provider || '/' || a.transaction_id, '')
      FROM orders AS o
      LEFT JOIN (SELECT order_id, count(*) AS n, min(provider) AS provider,
                        min(transaction_id) AS transaction_id
                   FROM payments
                  WHERE verdict = 'APPLIED' AND kind = 'succeeded'
                  GROUP BY order_id) AS a ON a.order_id = o.order_id
     WHERE CASE WHEN o.status IN ('PAID', 'SHIPPED', 'DONE')
                THEN a.n IS DISTINCT FROM 1
                     OR a.provider IS DISTINCT FROM o.paid_provider
                     OR a.transaction_id IS DISTINCT FROM o.paid_transaction_id
                ELSE a.n IS NOT NULL OR o.paid_provider IS NOT NULL END
     ORDER BY o.order_id",
);

/// The step to PAID names another payment than the order.
pub(crate) const A2_STEP: Sql = Sql::both(
    "
    SELECT o.order_id, 'transition ' || t.version || ' was paid by '
           || coalesce(t.provider || '/' || t.transaction_id, 'nothing')
      FROM orders AS o
      JOIN transitions AS t ON t.order_id = o.order_id AND t.event = 'pay'
     WHERE t.provider IS DISTINCT FROM o.paid_provider
        OR t.transaction_id IS DISTINCT FROM o.paid_transaction_id
     ORDER BY o.order_id",
);

/// An applied payment without an order that it paid.
pub(crate) const A3: Sql = Sql::both(
    "
    SELECT p.provider || '/' || p.transaction_id || '/' || p.kind,
           'applied to ' || p.order_id || ', which is ' || coalesce(o.status, 'not there')
      FROM payments AS p
      LEFT JOIN orders AS o ON o.order_id = p.order_id
     WHERE p.verdict = 'APPLIED'
       AND (p.kind <> 'succeeded' OR o.order_id IS NULL
            OR o.status NOT IN ('PAID', 'SHIPPED', 'DONE')
            OR coalesce(o.paid_provider, '') <> p.provider
            OR coalesce(o.paid_transaction_id, '') <> p.transaction_id)
     ORDER BY p.provider, p.transaction_id, p.kind",
);

/// A verdict that demands an exception without one.
pub(crate) const A4: Sql = Sql::both(
    "
    SELECT p.provider || '/' || p.transaction_id || '/' || p.kind,
           p.verdict || ' for ' || p.order_id || ' without an exception'
      FROM payments AS p
     WHERE p.verdict IN ('REVERSED', 'SECOND_PAYMENT', 'PAID_AFTER_CANCEL', 'CURRENCY_MISMATCH',
                         'AMOUNT_MISMATCH')
       AND NOT EXISTS (SELECT 1
                         FROM payment_exceptions AS e
                        WHERE e.verdict = p.verdict
                          AND e.provider = p.provider
                          AND e.transaction_id = p.transaction_id
                          AND e.kind = p.kind
                          AND e.order_id = p.order_id
                          AND e.amount = p.amount
                          AND e.currency = p.currency)
     ORDER BY p.provider, p.transaction_id, p.kind",
);

/// A payment that waits though its order is there. `$1`: received before.
pub(crate) const A5: Sql = Sql::both(
    "
    SELECT p.provider || '/' || p.transaction_id || '/' || p.kind,
           'waits for ' || p.order_id || ', which exists'
      FROM payments AS p
      JOIN orders AS o ON o.order_id = p.order_id
     WHERE p.verdict = 'WAITING_FOR_ORDER'
       AND p.received_at < $1
       AND NOT EXISTS (SELECT 1
                         FROM payment_exceptions AS e
                        WHERE e.order_id = p.order_id
                          AND e.verdict = 'WAITING_FOR_ORDER'
                          AND e.provider = p.provider
                          AND e.transaction_id = p.transaction_id
                          AND e.kind = p.kind
                          AND e.state = 'closed'
                          AND e.resolution <> 'settled')
     ORDER BY p.provider, p.transaction_id, p.kind",
);

pub(crate) const EVERY_ORDER: Sql = Sql::both(
    "
    SELECT order_id, status, amount, currency, version, pay_by, created_at, updated_at,
           paid_provider, paid_transaction_id
      FROM orders",
);

pub(crate) const EVERY_PAYMENT: Sql = Sql::both(
    "
    SELECT provider, transaction_id, kind, event_id, order_id, verdict, amount, currency,
           occurred_at, received_at, source
      FROM payments",
);

pub(crate) const EVERY_TRANSITION: Sql = Sql::both(
    "
    SELECT order_id, version, CAST(0 AS bigint) AS rank, from_status, to_status, event, source,
           actor, reason, coalesce(provider, '') AS provider,
           coalesce(transaction_id, '') AS transaction_id, at
      FROM transitions",
);

pub(crate) const EVERY_REFUSAL: Sql = Sql::both(
    "
    SELECT order_id, version, CAST(1 AS bigint) AS rank, NULL AS from_status, NULL AS to_status,
           event, source, actor, reason, provider, transaction_id, at
      FROM refusals",
);

pub(crate) const EVERY_EXCEPTION: Sql = Sql::both(
    "
    SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
           expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
           resolution, note, closed_by, opened_at, closed_at
      FROM payment_exceptions",
);

pub(crate) const EVERY_CHECK: Sql = Sql::both(
    "
    SELECT order_id, next_check_at, ask_at, pause_ms, unknowns
      FROM checks",
);

pub(crate) const EVERY_RUN: Sql = Sql::both(
    "
    SELECT id, state, dry_run, started_by, started_at, finished_at, asked, healed, cancelled,
           pending, unknown, raced, settled
      FROM runs",
);

pub(crate) const EVERY_FINDING: Sql = Sql::both(
    "
    SELECT run_id, position, order_id, kind, detail
      FROM run_findings",
);

pub(crate) const EVERY_OUTBOX_ROW: Sql = Sql::both(
    "
    SELECT seq, at, content
      FROM outbox",
);

pub(crate) const EVERY_SET_ASIDE: Sql = Sql::both(
    "
    SELECT name, version, kind, why, tried, at, line
      FROM outbox_set_aside",
);

pub(crate) const EVERY_LEASE: Sql = Sql::both(
    "
    SELECT name, holder, expires_at
      FROM leases",
);

pub(crate) const EVERY_PACE: Sql = Sql::both(
    "
    SELECT name, next_at, not_before
      FROM pacing",
);

/// Without the bodies: any bytes are a body, and only a missing one is wrong. SQLite reads it as an empty one, unless it
/// is given another type.
pub(crate) const EVERY_DEAD_LETTER: Sql = Sql {
    postgres: "
        SELECT id, stream, subject, sequence, headers,
               CASE WHEN body IS NOT NULL THEN ''::bytea END AS body, reason, detail,
               received_at, state, note
          FROM dead_letters",
    sqlite: "
        SELECT id, stream, subject, sequence, headers,
               CASE WHEN body IS NOT NULL THEN x'' ELSE 0 END AS body, reason, detail,
               received_at, state, note
          FROM dead_letters",
};

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    A1_COUNT,
    A1_ORPHAN,
    A1_CHAIN,
    A1_LAST,
    STEPS,
    STEP_TAKEN,
    A2,
    A2_STEP,
    A3,
    A4,
    A5,
    EVERY_ORDER,
    EVERY_PAYMENT,
    EVERY_TRANSITION,
    EVERY_REFUSAL,
    EVERY_EXCEPTION,
    EVERY_CHECK,
    EVERY_RUN,
    EVERY_FINDING,
    EVERY_OUTBOX_ROW,
    EVERY_SET_ASIDE,
    EVERY_LEASE,
    EVERY_PACE,
    EVERY_DEAD_LETTER
];
