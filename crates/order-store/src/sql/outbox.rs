//! Statements on `outbox` and `outbox_progress`.

use super::Sql;

/// For the rest of a transaction, statements go by keys. A prepared statement keeps the plan that was made
/// while a table was short, and statistics of a table that is filled and emptied are always wrong.
pub(crate) const BY_KEY: &str = "
    SET LOCAL enable_seqscan = off;
    SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_sort = off";

pub(crate) const INSERT: Sql =
    Sql::both("INSERT INTO outbox (at, events, content) VALUES ($1, $2, $3)");

pub(crate) const INSERT_AT: Sql =
    Sql::both("INSERT INTO outbox (seq, at, events, content) VALUES ($1, $2, $3, $4)");

pub(crate) const FRONT: Sql = Sql::both("SELECT coalesce(min(seq), 0) FROM outbox");

/// At most `$3` rows, and none behind the one that reaches `$4` events. `last` is the end of the outbox in
/// the same snapshot, `tried` how far publishing was tried before. A damaged value spoils no other row.
pub(crate) const PAGE: Sql = Sql {
    postgres: "
        SELECT seq, content,
               CASE WHEN at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
                    THEN at ELSE '1970-01-01 00:00:00Z' END AS at,
               coalesce((SELECT max(seq) FROM outbox), 0) AS last,
               coalesce((SELECT seq FROM outbox_progress WHERE name = 'tried'), 0) AS tried
          FROM (SELECT seq, at, content,
                       CAST(sum(events) OVER (ORDER BY seq) AS bigint) - events AS before
                  FROM (SELECT seq, at, events, content
                          FROM outbox
                         WHERE seq > $1
                           AND seq <= $2
                         ORDER BY seq
                         LIMIT $3) AS page) AS counted
         WHERE before < $4
         ORDER BY seq",
    sqlite: "
        SELECT seq, content,
               CASE WHEN typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000
                    THEN at ELSE 0 END AS at,
               coalesce((SELECT max(seq) FROM outbox), 0) AS last,
               coalesce((SELECT seq FROM outbox_progress WHERE name = 'tried'), 0) AS tried
          FROM (SELECT seq, at, CAST(content AS text) AS content,
                       CAST(sum(events) OVER (ORDER BY seq) AS bigint) - events AS before
                  FROM (SELECT seq, at, events, content
                          FROM outbox
                         WHERE seq > $1
                           AND seq <= $2
                         ORDER BY seq
                         LIMIT $3) AS page) AS counted
         WHERE before < $4
         ORDER BY seq",
};

pub(crate) const DELETE: Sql = Sql {
    postgres: "DELETE FROM outbox WHERE seq = ANY($1)",
    sqlite: "DELETE FROM outbox WHERE seq IN (SELECT value FROM json_each($1))",
};

/// What is left of a row.
pub(crate) const KEEP: Sql =
    Sql::both("UPDATE outbox SET at = $2, events = $3, content = $4 WHERE seq = $1");

pub(crate) const SET_PROGRESS: Sql = Sql::both(
    "
    INSERT INTO outbox_progress (name, seq)
    VALUES ('tried', $1)
        ON CONFLICT (name) DO UPDATE
       SET seq = excluded.seq
     WHERE outbox_progress.seq < excluded.seq",
);

/// Whether there is anything that only an older version would publish.
pub(crate) const OLD_ROWS: Sql = Sql::both(
    "
    SELECT CAST(1 AS bigint) AS one
     WHERE EXISTS (SELECT 1 FROM transitions
                    WHERE published_at IS NULL AND set_aside IS NULL)
        OR EXISTS (SELECT 1 FROM transitions
                    WHERE published_at IS NULL AND set_aside IS NOT NULL)
        OR EXISTS (SELECT 1 FROM payment_exceptions
                    WHERE published_at IS NULL AND set_aside IS NULL)
        OR EXISTS (SELECT 1 FROM payment_exceptions
                    WHERE published_at IS NULL AND set_aside IS NOT NULL)",
);

/// At most `$1` rows are looked at: a look at the gauges must not walk a long backlog. A time that can't be read counts
/// for nothing, its row does.
pub(crate) const COUNT: Sql = Sql {
    postgres: "
        SELECT CAST(coalesce(sum(events), 0) AS bigint) AS events,
               min(at) FILTER (WHERE at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z') AS oldest
          FROM (SELECT events, at FROM outbox ORDER BY seq LIMIT $1) AS o",
    sqlite: "
        SELECT CAST(coalesce(sum(events), 0) AS bigint) AS events,
               min(CASE WHEN typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000
                        THEN at END) AS oldest
          FROM (SELECT events, at FROM outbox ORDER BY seq LIMIT $1) AS o",
};

/// What an older version of the service left unpublished, of each kind up to `$1` rows.
macro_rules! unpublished {
    () => {
        "
          FROM (SELECT at
                  FROM (SELECT at FROM transitions
                         WHERE published_at IS NULL AND set_aside IS NULL
                         LIMIT $1) AS t
                 UNION ALL
                SELECT opened_at AS at
                  FROM (SELECT opened_at FROM payment_exceptions
                         WHERE published_at IS NULL AND set_aside IS NULL
                         LIMIT $1) AS e) AS o"
    };
}

pub(crate) const COUNT_OLD: Sql = Sql {
    postgres: concat!(
        "
        SELECT count(*) AS events,
               min(at) FILTER (WHERE at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z') AS oldest",
        unpublished!()
    ),
    sqlite: concat!(
        "
        SELECT count(*) AS events,
               min(CASE WHEN typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000
                        THEN at END) AS oldest",
        unpublished!()
    ),
};

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    INSERT,
    INSERT_AT,
    FRONT,
    PAGE,
    DELETE,
    KEEP,
    SET_PROGRESS,
    OLD_ROWS,
    COUNT,
    COUNT_OLD
];
