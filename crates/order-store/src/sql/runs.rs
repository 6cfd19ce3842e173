//! Statements on `runs` and `run_findings`.

use super::Sql;

pub(crate) const INSERT: Sql =
    Sql::both("INSERT INTO runs (id, dry_run, started_by, started_at) VALUES ($1, $2, $3, $4)");

/// Runs whose process is gone: their lease ran out.
pub(crate) const FAIL: Sql =
    Sql::both("UPDATE runs SET state = 'failed', finished_at = $1 WHERE state = 'running'");

pub(crate) const RUNNING: Sql = Sql::both(
    "SELECT id FROM runs WHERE state = 'running' ORDER BY started_at DESC, id DESC LIMIT 1",
);

pub(crate) const PROGRESS: Sql = Sql::both(
    "
    UPDATE runs
       SET asked = $2, healed = $3, cancelled = $4, pending = $5, unknown = $6, raced = $7,
           settled = $8
     WHERE id = $1 AND state = 'running'",
);

/// A run that the next one took for dead stays failed.
pub(crate) const END: Sql =
    Sql::both("UPDATE runs SET state = $2, finished_at = $3 WHERE id = $1 AND state = 'running'");

/// `$2` is `[[position, order, kind, detail], …]`.
pub(crate) const INSERT_FINDINGS: Sql = Sql {
    postgres: "
        INSERT INTO run_findings (run_id, position, order_id, kind, detail)
        SELECT $1, (f.row ->> 0)::bigint, f.row ->> 1, f.row ->> 2, f.row ->> 3
          FROM json_array_elements($2::json) AS f (row)",
    sqlite: "
        INSERT INTO run_findings (run_id, position, order_id, kind, detail)
        SELECT $1, f.value ->> 0, f.value ->> 1, f.value ->> 2, f.value ->> 3
          FROM json_each($2) AS f",
};

pub(crate) const GET: Sql = Sql::both(
    "
    SELECT id, state, dry_run, started_by, started_at, finished_at, asked, healed, cancelled,
           pending, unknown, raced, settled
      FROM runs
     WHERE id = $1",
);

/// Newest first: the latest runs are what people look for.
pub(crate) const LIST: Sql = Sql::both(
    "
    SELECT id, state, dry_run, started_by, started_at, finished_at, asked, healed, cancelled,
           pending, unknown, raced, settled
      FROM runs
     WHERE (started_at, id) < ($1, $2)
     ORDER BY started_at DESC, id DESC
     LIMIT $3 OFFSET $4",
);

/// `$1` is `[run, …]`.
pub(crate) const FINDINGS: Sql = Sql {
    postgres: "
        SELECT run_id, position, order_id, kind, detail
          FROM run_findings
         WHERE run_id IN (SELECT value FROM json_array_elements_text($1::json))
         ORDER BY run_id, position",
    sqlite: "
        SELECT run_id, position, order_id, kind, detail
          FROM run_findings
         WHERE run_id IN (SELECT value FROM json_each($1))
         ORDER BY run_id, position",
};

/// Ended runs started before `$1`, at most `$2` of them; their findings go with them.
pub(crate) const PURGE: Sql = Sql::both(
    "
    DELETE FROM runs
     WHERE id IN (SELECT id FROM runs
                   WHERE started_at < $1 AND state <> 'running'
                   ORDER BY started_at, id
                   LIMIT $2)",
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![
    INSERT,
    FAIL,
    RUNNING,
    PROGRESS,
    END,
    INSERT_FINDINGS,
    GET,
    LIST,
    FINDINGS,
    PURGE
];
