//! Statements on `transitions`.

use super::Sql;

/// A version that exists already doesn't fail the statement: the caller counts the inserted rows. `published_at` was used
/// by older versions; its value here means that the outbox has the event.
pub(crate) const INSERT: Sql = Sql {
    postgres: "
        INSERT INTO transitions
               (order_id, version, from_status, to_status, event, source, actor, reason,
                provider, transaction_id, at, published_at)
        SELECT order_id, version, from_status, to_status, event, source, actor, reason,
               provider, transaction_id, at, $12
          FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[],
                      $7::text[], $8::text[], $9::text[], $10::text[], $11::timestamptz[])
               AS f (order_id, version, from_status, to_status, event, source, actor, reason,
                     provider, transaction_id, at)
            ON CONFLICT DO NOTHING",
    sqlite: "
        INSERT INTO transitions
               (order_id, version, from_status, to_status, event, source, actor, reason,
                provider, transaction_id, at, published_at)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, $2
          FROM json_each($1)
         WHERE true
            ON CONFLICT DO NOTHING",
};

/// Transitions and refusals, oldest first: a refusal follows the version it met.
pub(crate) const HISTORY: Sql = Sql::both(
    "
    SELECT order_id, version, rank, from_status, to_status, event, source, actor, reason, provider,
           transaction_id, at
      FROM (SELECT order_id, version, CAST(0 AS bigint) AS rank, from_status, to_status, event, source, actor, reason,
                   coalesce(provider, '') AS provider,
                   coalesce(transaction_id, '') AS transaction_id, at
              FROM transitions
             WHERE order_id = $1
             UNION ALL
            SELECT order_id, version, CAST(1 AS bigint) AS rank, NULL AS from_status, NULL AS to_status, event, source,
                   actor, reason, provider, transaction_id, at
              FROM refusals
             WHERE order_id = $1) AS h
     WHERE (version, rank, at, event, coalesce(reason, ''), provider, transaction_id)
         > ($2, $3, $4, $5, $6, $7, $8)
     ORDER BY version, rank, at, event, coalesce(reason, ''), provider, transaction_id
     LIMIT $9 OFFSET $10",
);

/// The last order of a step: the walk over the transitions goes by their key, in pieces, and cuts no order.
pub(crate) const STEP: Sql = Sql::both(
    "
    SELECT order_id
      FROM transitions
     WHERE order_id > $1
     ORDER BY order_id, version
     LIMIT 1 OFFSET $2",
);

/// Transitions as lines of the outbox, of the rows that the conditions of each database choose. A damaged value affects
/// its own line only.
macro_rules! lines {
    (postgres: $postgres:literal, sqlite: $sqlite:literal $(,)?) => {
        Sql {
            postgres: concat!(
                "
        SELECT t.order_id, t.version,
               CASE WHEN isfinite(t.at) THEN (extract(epoch FROM t.at) * 1000000)::bigint END
                   AS micros,
               json_build_array('t', t.order_id, t.version, t.from_status, t.to_status, o.amount,
                                o.currency, t.provider, t.transaction_id, t.source, t.reason,
                                CASE WHEN isfinite(t.at)
                                     THEN (extract(epoch FROM t.at) * 1000000)::bigint END)::text
                   AS line
          FROM transitions AS t
          LEFT JOIN orders AS o ON o.order_id = t.order_id
",
                $postgres,
                "
         ORDER BY t.order_id, t.version"
            ),
            sqlite: concat!(
                "
        SELECT t.order_id, t.version,
               CASE WHEN typeof(t.at) = 'integer' THEN t.at END AS micros,
               json_array('t', t.order_id, t.version, t.from_status, t.to_status, o.amount,
                          o.currency, t.provider, t.transaction_id, t.source, t.reason, t.at)
                   AS line
          FROM transitions AS t
          LEFT JOIN orders AS o ON o.order_id = t.order_id
",
                $sqlite,
                "
         ORDER BY t.order_id, t.version"
            ),
        }
    };
}

/// The transitions of orders, except those that an older relay published: they have the time of that.
pub(crate) const LINES_OF_ORDERS: Sql = lines! {
    postgres: "         WHERE t.order_id = ANY($1)
           AND (t.published_at IS NULL OR t.published_at = '1970-01-01 00:00:00Z')",
    sqlite: "         WHERE t.order_id IN (SELECT value FROM json_each($1))
           AND (t.published_at IS NULL OR t.published_at = 0)",
};

/// What happened since `$3` to the orders behind `$1` and up to `$2`.
pub(crate) const LINES_BETWEEN: Sql = lines! {
    postgres: "         WHERE t.order_id > $1
           AND t.order_id <= $2
           AND t.at >= $3",
    sqlite: "         WHERE t.order_id > $1
           AND t.order_id <= $2
           AND t.at >= $3",
};

/// Each half through its partial index.
pub(crate) const OLD_ORDERS: Sql = Sql::both(
    "
    SELECT order_id
      FROM (SELECT order_id FROM transitions
             WHERE published_at IS NULL AND set_aside IS NULL
             LIMIT $1) AS unpublished
     UNION ALL
    SELECT order_id
      FROM (SELECT order_id FROM transitions
             WHERE published_at IS NULL AND set_aside IS NOT NULL
             LIMIT $1) AS aside",
);

pub(crate) const OLD_DONE: Sql = Sql {
    postgres: "
        UPDATE transitions AS t
           SET published_at = $3, set_aside = NULL
          FROM unnest($1::text[], $2::bigint[]) AS f (order_id, version)
         WHERE t.order_id = f.order_id COLLATE \"C\"
           AND t.version  = f.version
           AND t.published_at IS NULL",
    sqlite: "
        UPDATE transitions
           SET published_at = $2, set_aside = NULL
         WHERE (order_id, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each($1))
           AND published_at IS NULL",
};

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    INSERT,
    HISTORY,
    STEP,
    LINES_OF_ORDERS,
    LINES_BETWEEN,
    OLD_ORDERS,
    OLD_DONE
];
