//! Statements on `dead_letters`.

use super::{Sql, locking};

/// A letter that is known stays as it is. JSON holds no bytes: to SQLite a body goes as hex digits.
pub(crate) const INSERT: Sql = Sql {
    postgres: "
        INSERT INTO dead_letters
               (id, stream, subject, sequence, headers, body, reason, detail, received_at)
        SELECT id, stream, subject, sequence, headers, body, reason, detail, $9
          FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bytea[],
                      $7::text[], $8::text[])
               AS f (id, stream, subject, sequence, headers, body, reason, detail)
            ON CONFLICT DO NOTHING",
    sqlite: "
        INSERT INTO dead_letters
               (id, stream, subject, sequence, headers, body, reason, detail, received_at)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
               unhex(value ->> 5), value ->> 6, value ->> 7, $2
          FROM json_each($1)
         WHERE true
            ON CONFLICT DO NOTHING",
};

pub(crate) const GET: Sql = Sql::both(
    "
    SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state, note
      FROM dead_letters
     WHERE id = $1",
);

pub(crate) const LOCK: Sql = locking!(
    "
    SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
           note
      FROM dead_letters
     WHERE id = $1"
);

pub(crate) const LIST: Sql = Sql::both(
    "
    SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
           note
      FROM dead_letters
     WHERE (CAST($1 AS text) IS NULL OR state = $1)
       AND (received_at, id) > ($2, $3)
     ORDER BY received_at, id
     LIMIT $4 OFFSET $5",
);

/// Open letters, past any number of closed ones.
pub(crate) const OPEN: Sql = Sql::both(
    "
        SELECT id, stream, subject, sequence, headers, body, reason, detail, received_at, state,
               note
          FROM dead_letters
         WHERE state = 'open'
           AND (received_at, id) > ($1, $2)
         ORDER BY received_at, id
         LIMIT $3 OFFSET $4",
);

pub(crate) const END: Sql = Sql::both(
    "
    UPDATE dead_letters
       SET state = $2, note = $3
     WHERE id = $1 AND state = 'open'",
);

/// Open dead letters, up to `$1`.
pub(crate) const COUNT_OPEN: Sql = Sql::both(
    "SELECT count(*) FROM (SELECT 1 FROM dead_letters WHERE state = 'open' LIMIT $1) AS counted",
);

/// Closed letters older than `$1`, at most `$2` of them.
pub(crate) const PURGE: Sql = Sql::both(
    "
    DELETE FROM dead_letters
     WHERE id IN (SELECT id FROM dead_letters
                   WHERE state <> 'open' AND received_at < $1
                   ORDER BY received_at, id
                   LIMIT $2)",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] =
    super::named![INSERT, GET, LOCK, LIST, OPEN, END, COUNT_OPEN, PURGE];
