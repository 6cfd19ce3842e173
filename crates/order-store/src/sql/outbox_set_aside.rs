//! Statements on `outbox_set_aside`.

use super::Sql;

pub(crate) const ANY: Sql = Sql::both("SELECT version FROM outbox_set_aside LIMIT 1");

/// Of these orders, those of which an event is set aside. Exceptions have version 0.
pub(crate) const ORDERS: Sql = Sql {
    postgres: "
        SELECT DISTINCT f.name
          FROM unnest($1::text[]) AS f (name)
         WHERE EXISTS (SELECT FROM outbox_set_aside AS a
                        WHERE a.name = f.name COLLATE \"C\" AND a.version <> 0)",
    sqlite: "
        SELECT DISTINCT f.value
          FROM json_each($1) AS f
         WHERE EXISTS (SELECT 1 FROM outbox_set_aside AS a
                        WHERE a.name = f.value AND a.version <> 0)",
};

pub(crate) const PAGE: Sql = Sql {
    postgres: "
        SELECT name, version, kind, tried,
               CASE WHEN at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
                    THEN at ELSE '1970-01-01 00:00:00Z' END AS at,
               line
          FROM outbox_set_aside
         WHERE name > $1
         ORDER BY name, version
         LIMIT $2",
    sqlite: "
        SELECT name, version, kind, tried,
               CASE WHEN typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000
                    THEN at ELSE 0 END AS at,
               line
          FROM outbox_set_aside
         WHERE name > $1
         ORDER BY name, version
         LIMIT $2",
};

pub(crate) const ONE: Sql = Sql {
    postgres: "
        SELECT name, version, kind, tried,
               CASE WHEN at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
                    THEN at ELSE '1970-01-01 00:00:00Z' END AS at,
               line
          FROM outbox_set_aside
         WHERE kind  = $1
           AND event = $2
         LIMIT 1",
    sqlite: "
        SELECT name, version, kind, tried,
               CASE WHEN typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000
                    THEN at ELSE 0 END AS at,
               line
          FROM outbox_set_aside
         WHERE kind  = $1
           AND event = $2
         LIMIT 1",
};

pub(crate) const INSERT: Sql = Sql {
    postgres: "
        INSERT INTO outbox_set_aside (name, version, event, kind, why, tried, at, line)
        SELECT name, version, event, kind, why, tried, at, line
          FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::boolean[],
                      $7::timestamptz[], $8::text[])
               AS f (name, version, event, kind, why, tried, at, line)
            ON CONFLICT (name, version) DO UPDATE
           SET event = excluded.event, kind = excluded.kind, why = excluded.why,
               tried = outbox_set_aside.tried OR excluded.tried",
    sqlite: "
        INSERT INTO outbox_set_aside (name, version, event, kind, why, tried, at, line)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
               value ->> 6, value ->> 7
          FROM json_each($1)
         WHERE true
            ON CONFLICT (name, version) DO UPDATE
           SET event = excluded.event, kind = excluded.kind, why = excluded.why,
               tried = outbox_set_aside.tried OR excluded.tried",
};

pub(crate) const DELETE: Sql = Sql {
    postgres: "
        DELETE FROM outbox_set_aside AS a
         USING unnest($1::text[], $2::bigint[]) AS f (name, version)
         WHERE a.name = f.name COLLATE \"C\" AND a.version = f.version",
    sqlite: "
        DELETE FROM outbox_set_aside
         WHERE (name, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each($1))",
};

/// Whether an event of these names and versions is there that the relay couldn't read.
pub(crate) const UNREADABLE: Sql = Sql::both(
    "
    SELECT version
      FROM outbox_set_aside
     WHERE name >= $1 AND name <= $2
       AND version >= $3 AND version <= $4
       AND kind = 'unreadable'
     LIMIT 1",
);

/// A time that can't be read counts for nothing, its row does.
pub(crate) const COUNT_BLOCKED: Sql = Sql {
    postgres: "
        SELECT count(*) AS events,
               min(at) FILTER (WHERE at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z') AS oldest
          FROM (SELECT at FROM (SELECT at FROM outbox_set_aside WHERE kind = 'blocked' LIMIT $1) AS b
                 UNION ALL
                SELECT at FROM (SELECT at FROM outbox_set_aside WHERE kind = 'waits' LIMIT $1) AS w)
               AS o",
    sqlite: "
        SELECT count(*) AS events,
               min(CASE WHEN typeof(at) = 'integer' AND at BETWEEN 0 AND 253402214400000000
                        THEN at END) AS oldest
          FROM (SELECT at FROM (SELECT at FROM outbox_set_aside WHERE kind = 'blocked' LIMIT $1) AS b
                 UNION ALL
                SELECT at FROM (SELECT at FROM outbox_set_aside WHERE kind = 'waits' LIMIT $1) AS w)
               AS o",
};

pub(crate) const COUNT_OTHERS: Sql = Sql::both(
    "
    SELECT count(*)
      FROM (SELECT 1 AS one
              FROM (SELECT 1 AS one FROM outbox_set_aside WHERE kind = 'too-large' LIMIT $1) AS t
             UNION ALL
            SELECT 1 AS one
              FROM (SELECT 1 AS one FROM outbox_set_aside WHERE kind = 'unreadable' LIMIT $1) AS u)
           AS o",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    ANY,
    ORDERS,
    PAGE,
    ONE,
    INSERT,
    DELETE,
    UNREADABLE,
    COUNT_BLOCKED,
    COUNT_OTHERS
];
