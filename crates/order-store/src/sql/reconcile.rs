//! Statements of the reconciliation: due orders, what becomes of them, runs, and the pace of
//! questions. Batches come as one JSON text in both dialects: none of this is the paying path.

use crate::conn::Sql;

/// Orders that are due, oldest first, behind a place. `left_at` is the time of version 2: the only
/// step out of `NOT_PAID`. It is asked per row, and through the key: a join is planned over all of
/// `transitions` while statistics know of no version 2.
pub(crate) const DUE: Sql = Sql::both(
    "
    SELECT c.order_id, c.next_check_at, coalesce(c.ask_at, c.next_check_at) AS ask_at, c.pause_ms,
           c.unknowns, o.status, o.pay_by,
           (SELECT t.at FROM transitions AS t
             WHERE t.order_id = c.order_id AND t.version = 2) AS left_at
      FROM (SELECT order_id, next_check_at, ask_at, pause_ms, unknowns
              FROM checks
             WHERE (next_check_at, order_id) > ($1, $2)
               AND next_check_at <= $3
             ORDER BY next_check_at, order_id
             LIMIT $4) AS c
      JOIN orders AS o ON o.order_id = c.order_id
     ORDER BY c.next_check_at, c.order_id",
);

/// `$1` is `[[order, next check, ask at, pause, unknowns], …]`, times in microseconds.
pub(crate) const CHECKS_MOVE: Sql = Sql {
    postgres: "
        UPDATE checks AS c
           SET next_check_at = timestamptz 'epoch' + (f.row ->> 1)::bigint * interval '1 microsecond',
               ask_at        = timestamptz 'epoch' + (f.row ->> 2)::bigint * interval '1 microsecond',
               pause_ms      = (f.row ->> 3)::bigint,
               unknowns      = (f.row ->> 4)::bigint
          FROM json_array_elements($1::json) AS f (row)
         WHERE c.order_id = f.row ->> 0",
    sqlite: "
        UPDATE checks
           SET next_check_at = f.value ->> 1, ask_at = f.value ->> 2, pause_ms = f.value ->> 3,
               unknowns = f.value ->> 4
          FROM json_each($1) AS f
         WHERE checks.order_id = f.value ->> 0",
};

/// `$1` is `[order, …]`.
pub(crate) const CHECKS_END: Sql = Sql {
    postgres: "
        DELETE FROM checks
         WHERE order_id IN (SELECT value FROM json_array_elements_text($1::json))",
    sqlite: "
        DELETE FROM checks
         WHERE order_id IN (SELECT value FROM json_each($1))",
};

/// Why orders are not cancelled, as of now: money that waits for a person or for its order, and a
/// step that says the order was paid though its status doesn't. Each is a scalar asked per row: an
/// EXISTS here can be planned as one hash over the whole table.
pub(crate) const CANCEL_GUARDS: Sql = Sql {
    postgres: "
        SELECT f.value AS order_id,
               coalesce((SELECT 1::bigint FROM payments
                          WHERE order_id = f.value AND verdict = 'WAITING_FOR_ORDER'
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
               coalesce((SELECT 1 FROM payments
                          WHERE order_id = f.value AND verdict <> 'APPLIED'
                            AND +verdict = 'WAITING_FOR_ORDER'
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

/// `$2` expected, `$3` new status. The guard is on the target row here as everywhere.
pub(crate) const ORDERS_CANCEL: Sql = Sql {
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

/// Orders and payments that were told again: `$1` is `[[order, provider, transaction], …]`.
pub(crate) const TOLD_AGAIN: Sql = Sql {
    postgres: "
        SELECT o.order_id, o.status, p.provider, p.transaction_id, p.verdict
          FROM json_array_elements($1::json) AS f (row)
          JOIN orders AS o ON o.order_id = f.row ->> 0
          JOIN payments AS p
            ON p.provider = f.row ->> 1 AND p.transaction_id = f.row ->> 2
           AND p.kind = 'succeeded'",
    sqlite: "
        SELECT o.order_id, o.status, p.provider, p.transaction_id, p.verdict
          FROM json_each($1) AS f
          JOIN orders AS o ON o.order_id = f.value ->> 0
          JOIN payments AS p
            ON p.provider = f.value ->> 1 AND p.transaction_id = f.value ->> 2
           AND p.kind = 'succeeded'",
};

/// Waiting payments received until `$1` that nobody was told about yet, locked; the order doesn't
/// exist.
pub(crate) const PAYMENTS_OVERDUE: Sql = Sql {
    postgres: "
        SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
               p.currency, p.occurred_at, p.received_at, p.source
          FROM payments AS p
         WHERE p.verdict = 'WAITING_FOR_ORDER'
           AND p.received_at <= $1
           AND NOT EXISTS (SELECT FROM orders AS o WHERE o.order_id = p.order_id)
           AND NOT EXISTS (SELECT FROM payment_exceptions AS e
                            WHERE e.order_id = p.order_id AND e.verdict = p.verdict
                              AND e.provider = p.provider
                              AND e.transaction_id = p.transaction_id AND e.kind = p.kind)
         ORDER BY p.provider, p.transaction_id, p.kind
         LIMIT $2
           FOR UPDATE OF p",
    sqlite: "
        SELECT p.provider, p.transaction_id, p.kind, p.event_id, p.order_id, p.verdict, p.amount,
               p.currency, p.occurred_at, p.received_at, p.source
          FROM payments AS p
         WHERE p.verdict = 'WAITING_FOR_ORDER'
           AND p.verdict <> 'APPLIED'
           AND p.received_at <= $1
           AND NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.order_id = p.order_id)
           AND NOT EXISTS (SELECT 1 FROM payment_exceptions AS e
                            WHERE e.order_id = p.order_id AND e.verdict = p.verdict
                              AND e.provider = p.provider
                              AND e.transaction_id = p.transaction_id AND e.kind = p.kind)
         ORDER BY p.provider, p.transaction_id, p.kind
         LIMIT $2",
};

pub(crate) const RUN_INSERT: Sql =
    Sql::both("INSERT INTO runs (id, dry_run, started_by, started_at) VALUES ($1, $2, $3, $4)");

/// Runs whose process is gone: their lease ran out.
pub(crate) const RUNS_FAIL: Sql =
    Sql::both("UPDATE runs SET state = 'failed', finished_at = $1 WHERE state = 'running'");

pub(crate) const RUN_RUNNING: Sql = Sql::both(
    "SELECT id FROM runs WHERE state = 'running' ORDER BY started_at DESC, id DESC LIMIT 1",
);

pub(crate) const RUN_PROGRESS: Sql = Sql::both(
    "
    UPDATE runs
       SET asked = $2, healed = $3, cancelled = $4, pending = $5, unknown = $6, raced = $7,
           settled = $8
     WHERE id = $1 AND state = 'running'",
);

/// A run that the next one took for dead stays failed.
pub(crate) const RUN_END: Sql =
    Sql::both("UPDATE runs SET state = $2, finished_at = $3 WHERE id = $1 AND state = 'running'");

/// `$2` is `[[position, order, kind, detail], …]`.
pub(crate) const FINDINGS_INSERT: Sql = Sql {
    postgres: "
        INSERT INTO run_findings (run_id, position, order_id, kind, detail)
        SELECT $1, (f.row ->> 0)::bigint, f.row ->> 1, f.row ->> 2, f.row ->> 3
          FROM json_array_elements($2::json) AS f (row)",
    sqlite: "
        INSERT INTO run_findings (run_id, position, order_id, kind, detail)
        SELECT $1, f.value ->> 0, f.value ->> 1, f.value ->> 2, f.value ->> 3
          FROM json_each($2) AS f",
};

pub(crate) const RUN_GET: Sql = Sql::both(
    "
    SELECT id, state, dry_run, started_by, started_at, finished_at, asked, healed, cancelled,
           pending, unknown, raced, settled
      FROM runs
     WHERE id = $1",
);

/// Newest first: who looks wants to know how the last ones went.
pub(crate) const RUNS_LIST: Sql = Sql::both(
    "
    SELECT id, state, dry_run, started_by, started_at, finished_at, asked, healed, cancelled,
           pending, unknown, raced, settled
      FROM runs
     WHERE (started_at, id) < ($1, $2)
     ORDER BY started_at DESC, id DESC
     LIMIT $3",
);

/// `$1` is `[run, …]`.
pub(crate) const FINDINGS_OF: Sql = Sql {
    postgres: "
        SELECT run_id, order_id, kind, detail
          FROM run_findings
         WHERE run_id IN (SELECT value FROM json_array_elements_text($1::json))
         ORDER BY run_id, position",
    sqlite: "
        SELECT run_id, order_id, kind, detail
          FROM run_findings
         WHERE run_id IN (SELECT value FROM json_each($1))
         ORDER BY run_id, position",
};

/// Ended runs started before `$1`, at most `$2` of them; their findings go with them.
pub(crate) const RUNS_PURGE: Sql = Sql::both(
    "
    DELETE FROM runs
     WHERE id IN (SELECT id FROM runs
                   WHERE started_at < $1 AND state <> 'running'
                   ORDER BY started_at, id
                   LIMIT $2)",
);

pub(crate) const PACE_BEGIN: Sql = Sql::both(
    "
    INSERT INTO pacing (name, next_at, not_before)
    VALUES ($1, $2, $2)
        ON CONFLICT DO NOTHING",
);

pub(crate) const PACE_LOCK: Sql = Sql {
    postgres: "SELECT next_at, not_before FROM pacing WHERE name = $1 FOR UPDATE",
    sqlite: "SELECT next_at, not_before FROM pacing WHERE name = $1",
};

pub(crate) const PACE_RESERVE: Sql = Sql::both("UPDATE pacing SET next_at = $2 WHERE name = $1");

/// The later of two times that the service named holds.
pub(crate) const PACE_CLOSE: Sql = Sql::both(
    "
    UPDATE pacing
       SET not_before = CASE WHEN not_before < $2 THEN $2 ELSE not_before END
     WHERE name = $1",
);

/// Every statement, by name, for the test that prepares them all.
#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = &[
    ("DUE", DUE),
    ("CHECKS_MOVE", CHECKS_MOVE),
    ("CHECKS_END", CHECKS_END),
    ("CANCEL_GUARDS", CANCEL_GUARDS),
    ("ORDERS_CANCEL", ORDERS_CANCEL),
    ("TOLD_AGAIN", TOLD_AGAIN),
    ("PAYMENTS_OVERDUE", PAYMENTS_OVERDUE),
    ("RUN_INSERT", RUN_INSERT),
    ("RUNS_FAIL", RUNS_FAIL),
    ("RUN_RUNNING", RUN_RUNNING),
    ("RUN_PROGRESS", RUN_PROGRESS),
    ("RUN_END", RUN_END),
    ("FINDINGS_INSERT", FINDINGS_INSERT),
    ("RUN_GET", RUN_GET),
    ("RUNS_LIST", RUNS_LIST),
    ("FINDINGS_OF", FINDINGS_OF),
    ("RUNS_PURGE", RUNS_PURGE),
    ("PACE_BEGIN", PACE_BEGIN),
    ("PACE_LOCK", PACE_LOCK),
    ("PACE_RESERVE", PACE_RESERVE),
    ("PACE_CLOSE", PACE_CLOSE),
];
