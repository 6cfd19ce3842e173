//! The statements of people's work: closing exceptions, replaying dead letters, retention.

use crate::conn::Sql;

/// Locks a recorded payment; a waiting one could be settled meanwhile.
pub(crate) const PAYMENT_LOCK: Sql = Sql {
    postgres: "
        SELECT verdict FROM payments
         WHERE provider = $1 AND transaction_id = $2 AND kind = $3
           FOR UPDATE",
    sqlite: "
        SELECT verdict FROM payments
         WHERE provider = $1 AND transaction_id = $2 AND kind = $3",
};

pub(crate) const EXCEPTION_KEY: Sql = Sql::both(
    "
    SELECT verdict, order_id, provider, transaction_id, kind
      FROM payment_exceptions
     WHERE id = $1",
);

pub(crate) const EXCEPTION_LOCK: Sql = Sql {
    postgres: "
        SELECT state, resolution, note FROM payment_exceptions WHERE id = $1 FOR UPDATE",
    sqlite: "
        SELECT state, resolution, note FROM payment_exceptions WHERE id = $1",
};

pub(crate) const EXCEPTION_CLOSE: Sql = Sql::both(
    "
    UPDATE payment_exceptions
       SET state = 'closed', resolution = $2, note = $3, closed_by = $4, closed_at = $5
     WHERE id = $1 AND state = 'open'",
);

/// A person takes a mismatch for payment: the guard is the status alone.
pub(crate) const ORDER_ACCEPT: Sql = Sql {
    postgres: "
        UPDATE orders
           SET status = $3, version = version + 1, updated_at = GREATEST(updated_at, $4),
               paid_provider = $5, paid_transaction_id = $6
         WHERE order_id = $1
           AND status   = $2
     RETURNING order_id, version, updated_at",
    sqlite: "
        UPDATE orders
           SET status = $3, version = version + 1, updated_at = MAX(updated_at, $4),
               paid_provider = $5, paid_transaction_id = $6
         WHERE order_id = $1
           AND status   = $2
     RETURNING order_id, version, updated_at",
};

pub(crate) const EXCEPTION_GET: Sql = Sql::both(
    "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE id = $1",
);

pub(crate) const EXCEPTIONS_LIST: Sql = Sql {
    postgres: "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE ($1::text IS NULL OR state = $1)
           AND ($2::text IS NULL OR verdict = $2)
           AND ($3::text IS NULL OR order_id = $3)
           AND (opened_at, id) > ($4, $5)
         ORDER BY opened_at, id
         LIMIT $6",
    sqlite: "
        SELECT id, verdict, order_id, provider, transaction_id, kind, event_id, amount, currency,
               expected_order_id, expected_amount, expected_currency, occurred_at, pay_by,
               resolution, note, closed_by, opened_at, closed_at
          FROM payment_exceptions
         WHERE ($1 IS NULL OR state = $1)
           AND ($2 IS NULL OR verdict = $2)
           AND ($3 IS NULL OR order_id = $3)
           AND (opened_at, id) > ($4, $5)
         ORDER BY opened_at, id
         LIMIT $6",
};

pub(crate) const DEAD_LETTER_GET: Sql = Sql::both(
    "
    SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state, note
      FROM dead_letters
     WHERE id = $1",
);

pub(crate) const DEAD_LETTER_LOCK: Sql = Sql {
    postgres: "
        SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
               note
          FROM dead_letters
         WHERE id = $1
           FOR UPDATE",
    sqlite: "
        SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
               note
          FROM dead_letters
         WHERE id = $1",
};

pub(crate) const DEAD_LETTERS_LIST: Sql = Sql {
    postgres: "
        SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
               note
          FROM dead_letters
         WHERE ($1::text IS NULL OR state = $1)
           AND (received_at, id) > ($2, $3)
         ORDER BY received_at, id
         LIMIT $4",
    sqlite: "
        SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
               note
          FROM dead_letters
         WHERE ($1 IS NULL OR state = $1)
           AND (received_at, id) > ($2, $3)
         ORDER BY received_at, id
         LIMIT $4",
};

pub(crate) const DEAD_LETTER_END: Sql = Sql::both(
    "
    UPDATE dead_letters
       SET state = $2, note = $3
     WHERE id = $1 AND state = 'open'",
);

/// Closed letters older than `$1`, at most `$2` of them.
pub(crate) const DEAD_LETTERS_PURGE: Sql = Sql::both(
    "
    DELETE FROM dead_letters
     WHERE id IN (SELECT id FROM dead_letters
                   WHERE state <> 'open' AND received_at < $1
                   ORDER BY received_at, id
                   LIMIT $2)",
);

/// Refusals older than `$1`, at most `$2` of them.
pub(crate) const REFUSALS_PURGE: Sql = Sql::both(
    "
    DELETE FROM refusals
     WHERE (order_id, version, event, reason, provider, transaction_id)
        IN (SELECT order_id, version, event, reason, provider, transaction_id
              FROM refusals
             WHERE at < $1
             ORDER BY at
             LIMIT $2)",
);

/// Every statement, by name, for the test that prepares them all.
#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = &[
    ("PAYMENT_LOCK", PAYMENT_LOCK),
    ("EXCEPTION_KEY", EXCEPTION_KEY),
    ("EXCEPTION_LOCK", EXCEPTION_LOCK),
    ("EXCEPTION_CLOSE", EXCEPTION_CLOSE),
    ("ORDER_ACCEPT", ORDER_ACCEPT),
    ("EXCEPTION_GET", EXCEPTION_GET),
    ("EXCEPTIONS_LIST", EXCEPTIONS_LIST),
    ("DEAD_LETTER_GET", DEAD_LETTER_GET),
    ("DEAD_LETTER_LOCK", DEAD_LETTER_LOCK),
    ("DEAD_LETTERS_LIST", DEAD_LETTERS_LIST),
    ("DEAD_LETTER_END", DEAD_LETTER_END),
    ("DEAD_LETTERS_PURGE", DEAD_LETTERS_PURGE),
    ("REFUSALS_PURGE", REFUSALS_PURGE),
];
