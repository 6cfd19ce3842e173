//! Statements on `payment_exceptions`.

use super::{Sql, locking};

/// Returns the exceptions that are new; one that is known, open or closed, stays as it is. `published_at` was
/// used by older versions; its value here means that the outbox has the event.
pub(crate) const INSERT: Sql = Sql {
    postgres: "
        INSERT INTO payment_exceptions
               (id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
                expected_order_id, expected_amount, expected_currency, occurred_at, pay_by,
                opened_at, published_at)
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, $15, $16
          FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                      $7::text[], $8::bigint[], $9::text[], $10::text[], $11::bigint[],
                      $12::text[], $13::timestamptz[], $14::timestamptz[])
               AS f (id, verdict, order_id, provider, transaction_id, kind, event_id, amount,
                     currency, expected_order_id, expected_amount, expected_currency, occurred_at,
                     pay_by)
            ON CONFLICT DO NOTHING
     RETURNING id",
    sqlite: "
        INSERT INTO payment_exceptions
               (id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
                expected_order_id, expected_amount, expected_currency, occurred_at, pay_by,
                opened_at, published_at)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11,
               value ->> 12, value ->> 13, $2, $3
          FROM json_each($1)
         WHERE true
            ON CONFLICT DO NOTHING
     RETURNING id",
};

pub(crate) const GET: Sql = Sql::both(
    "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE id = $1",
);

pub(crate) const LIST: Sql = Sql::both(
    "
    SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
           expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
           resolution, note, closed_by, opened_at, closed_at
      FROM payment_exceptions
     WHERE (CAST($1 AS text) IS NULL OR verdict = $1)
       AND (opened_at, id) > ($2, $3)
     ORDER BY opened_at, id
     LIMIT $4 OFFSET $5",
);

/// In a state: a page is read from an index that has its order.
pub(crate) const IN_STATE: Sql = Sql::both(
    "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE state = $1
           AND (opened_at, id) > ($2, $3)
         ORDER BY opened_at, id
         LIMIT $4 OFFSET $5",
);

/// In a state, with a verdict.
pub(crate) const IN_STATE_OF_VERDICT: Sql = Sql::both(
    "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE state = $1
           AND verdict = $2
           AND (opened_at, id) > ($3, $4)
         ORDER BY opened_at, id
         LIMIT $5 OFFSET $6",
);

/// Of an order, which has few: they are sorted after they were found.
pub(crate) const OF_ORDER: Sql = Sql::both(
    "
    SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
           expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
           resolution, note, closed_by, opened_at, closed_at
      FROM payment_exceptions
     WHERE order_id = $1
       AND (CAST($2 AS text) IS NULL OR state = $2)
       AND (CAST($3 AS text) IS NULL OR verdict = $3)
       AND (opened_at, id) > ($4, $5)
     ORDER BY opened_at, id
     LIMIT $6 OFFSET $7",
);

pub(crate) const OF_IDS: Sql = Sql {
    postgres: "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE id = ANY($1)",
    sqlite: "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by, state,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE id IN (SELECT value FROM json_each($1))",
};

pub(crate) const KEY: Sql = Sql::both(
    "
    SELECT verdict, order_id, provider, transaction_id, kind
      FROM payment_exceptions
     WHERE id = $1",
);

pub(crate) const LOCK: Sql = locking!(
    "
    SELECT state, resolution, note FROM payment_exceptions WHERE id = $1"
);

pub(crate) const CLOSE: Sql = Sql::both(
    "
    UPDATE payment_exceptions
       SET state = 'closed', resolution = $2, note = $3, closed_by = $4, closed_at = $5
     WHERE id = $1 AND state = 'open'",
);

/// Exceptions that a person closed.
pub(crate) const CLOSED_BY_A_PERSON: Sql = Sql {
    postgres: "
        SELECT id FROM payment_exceptions
         WHERE id = ANY($1) AND state = 'closed' AND resolution <> 'settled'",
    sqlite: "
        SELECT id FROM payment_exceptions
         WHERE id IN (SELECT value FROM json_each($1)) AND state = 'closed'
           AND resolution <> 'settled'",
};

pub(crate) const SETTLE: Sql = Sql {
    postgres: "
        UPDATE payment_exceptions
           SET state = 'closed', resolution = 'settled', closed_by = $2, closed_at = $3
         WHERE id = ANY($1) AND state = 'open'",
    sqlite: "
        UPDATE payment_exceptions
           SET state = 'closed', resolution = 'settled', closed_by = $2, closed_at = $3
         WHERE id IN (SELECT value FROM json_each($1)) AND state = 'open'",
};

/// Open exceptions of each of the verdicts `$1`, up to `$2`: found through the index of open ones.
pub(crate) const COUNT_OPEN: Sql = Sql {
    postgres: "
        SELECT f.value AS verdict,
               (SELECT count(*)
                  FROM (SELECT FROM payment_exceptions AS e
                         WHERE e.state = 'open' AND e.verdict = f.value
                         LIMIT $2) AS counted)
          FROM json_array_elements_text($1::json) AS f",
    sqlite: "
        SELECT f.value AS verdict,
               (SELECT count(*)
                  FROM (SELECT 1 FROM payment_exceptions AS e
                         WHERE e.state = 'open' AND e.verdict = f.value
                         LIMIT $2) AS counted)
          FROM json_each($1) AS f",
};

pub(crate) const STEP: Sql = Sql::both(
    "
    SELECT opened_at, id
      FROM payment_exceptions
     WHERE (opened_at, id) > ($1, $2)
     ORDER BY opened_at, id
     LIMIT $3",
);

pub(crate) const OLD: Sql = Sql::both(
    "
    SELECT id
      FROM (SELECT id FROM payment_exceptions
             WHERE published_at IS NULL AND set_aside IS NULL
             LIMIT $1) AS unpublished
     UNION ALL
    SELECT id
      FROM (SELECT id FROM payment_exceptions
             WHERE published_at IS NULL AND set_aside IS NOT NULL
             LIMIT $1) AS aside",
);

pub(crate) const OLD_DONE: Sql = Sql {
    postgres: "
        UPDATE payment_exceptions
           SET published_at = $2, set_aside = NULL
         WHERE id = ANY($1)",
    sqlite: "
        UPDATE payment_exceptions
           SET published_at = $2, set_aside = NULL
         WHERE id IN (SELECT value FROM json_each($1))",
};

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    INSERT,
    GET,
    LIST,
    IN_STATE,
    IN_STATE_OF_VERDICT,
    OF_ORDER,
    OF_IDS,
    KEY,
    LOCK,
    CLOSE,
    CLOSED_BY_A_PERSON,
    SETTLE,
    COUNT_OPEN,
    STEP,
    OLD,
    OLD_DONE
];
