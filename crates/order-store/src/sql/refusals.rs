//! Statements on `refusals`.

use super::Sql;

/// A refusal that is known stays as it is.
pub(crate) const INSERT: Sql = Sql {
    postgres: "
        INSERT INTO refusals
               (order_id, version, event, reason, provider, transaction_id, source, actor, at)
        SELECT order_id, version, event, reason, provider, transaction_id, source, actor, $9
          FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                      $7::text[], $8::text[])
               AS f (order_id, version, event, reason, provider, transaction_id, source, actor)
            ON CONFLICT DO NOTHING",
    sqlite: "
        INSERT INTO refusals
               (order_id, version, event, reason, provider, transaction_id, source, actor, at)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7, $2
          FROM json_each($1)
         WHERE true
            ON CONFLICT DO NOTHING",
};

/// Refusals older than `$1`, at most `$2` of them.
pub(crate) const PURGE: Sql = Sql::both(
    "
    DELETE FROM refusals
     WHERE (order_id, version, event, reason, provider, transaction_id)
        IN (SELECT order_id, version, event, reason, provider, transaction_id
              FROM refusals
             WHERE at < $1
             ORDER BY at
             LIMIT $2)",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![INSERT, PURGE];
