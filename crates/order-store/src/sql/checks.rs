//! Statements on `checks`, the schedule of questions to the payment service. Batches are one JSON text in both
//! dialects: none of this is the paying path.

use super::Sql;

pub(crate) const INSERT: Sql = Sql::both(
    "
    INSERT INTO checks (order_id, next_check_at, ask_at, pause_ms)
    VALUES ($1, $2, $3, $4)
        ON CONFLICT DO NOTHING",
);

pub(crate) const GET: Sql = Sql::both(
    "
    SELECT order_id, next_check_at, pause_ms, unknowns
      FROM checks
     WHERE order_id = $1",
);

/// When an order is asked about next, and how many answers in a row said nothing.
pub(crate) const NEXT: Sql = Sql::both(
    "
    SELECT order_id, coalesce(ask_at, next_check_at) AS ask_at, unknowns
      FROM checks
     WHERE order_id = $1",
);

/// Orders that are due, oldest first, behind a place and `$5` rows more. `left_at` is the time of
/// version 2: the only step out of `NOT_PAID`. It is asked per row, and through the key: a join is
/// planned over all of `transitions` while statistics know of no version 2. A row without its order
/// is there all the same, or it would count as the end of the list.
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
             LIMIT $4 OFFSET $5) AS c
      LEFT JOIN orders AS o ON o.order_id = c.order_id
     ORDER BY c.next_check_at, c.order_id",
);

/// `$1` is `[[order, next check, ask at, pause, unknowns], …]`, times in microseconds.
pub(crate) const MOVE: Sql = Sql {
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
pub(crate) const END: Sql = Sql {
    postgres: "
        DELETE FROM checks
         WHERE order_id IN (SELECT value FROM json_array_elements_text($1::json))",
    sqlite: "
        DELETE FROM checks
         WHERE order_id IN (SELECT value FROM json_each($1))",
};

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![INSERT, GET, NEXT, DUE, MOVE, END];
