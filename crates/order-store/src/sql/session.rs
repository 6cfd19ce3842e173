//! How a PostgreSQL session is set up and examined, and the write that proves that a database takes writes.
//!
//! The texts without `$` go through the simple protocol: they need no prepared statement, whose name could belong to
//! another client behind a pooler.

use super::Sql;

/// The first statements of a session: statements that a pooler's former client left are forgotten, the limits of every
/// statement are set where the server knows them, and the session is marked. Answers the mark in the last row.
pub(crate) const BEGIN: &str = "
    DEALLOCATE ALL;
    SELECT set_config(w.name, w.setting, false)
      FROM (VALUES ('statement_timeout', '5s'),
                   ('lock_timeout', '2s'),
                   ('idle_in_transaction_session_timeout', '10s'),
                   ('transaction_timeout', '0'),
                   ('tcp_user_timeout', '15s'),
                   ('default_transaction_isolation', 'read committed'),
                   ('client_encoding', 'UTF8')) AS w (name, setting)
     WHERE EXISTS (SELECT FROM pg_settings AS s WHERE s.name = w.name);
    SELECT set_config('orderd.session',
                      md5(random()::text || clock_timestamp()::text || pg_backend_pid()::text), false)";

/// Takes all limits off a session, whatever the defaults of its role and database are.
pub(crate) const UNLIMITED: &str = "
    SELECT set_config(w.name, '0', false)
      FROM (VALUES ('statement_timeout'),
                   ('lock_timeout'),
                   ('idle_in_transaction_session_timeout'),
                   ('idle_session_timeout'),
                   ('transaction_timeout')) AS w (name)
     WHERE EXISTS (SELECT FROM pg_settings AS s WHERE s.name = w.name)";

/// Name, encoding, whether commits are synchronous.
pub(crate) const FITNESS: &str = "
    SELECT current_database()::text, current_setting('server_encoding'),
           current_setting('synchronous_commit')";

/// Which server process serves this transaction. Process ids are few on small machines: with the time it began.
pub(crate) const BACKEND: &str = "
    SELECT pg_backend_pid()::text || ' '
           || coalesce((SELECT backend_start::text FROM pg_stat_activity
                         WHERE pid = pg_backend_pid()), '')";

/// One row per process or so: several at once don't wait for one another.
pub(crate) const WRITE_PROBE: Sql = Sql::both(
    "
    INSERT INTO write_probes (slot, at)
    VALUES ($1, $2)
        ON CONFLICT (slot) DO UPDATE SET at = excluded.at",
);

/// Every table of the service, with what a role needs on it. What isn't needed (orders are never deleted) isn't listed.
macro_rules! tables {
    () => {
        "
        (VALUES ('orders', 'SELECT INSERT UPDATE'),
                ('payments', 'SELECT INSERT UPDATE'),
                ('transitions', 'SELECT INSERT UPDATE'),
                ('refusals', 'SELECT INSERT DELETE'),
                ('payment_exceptions', 'SELECT INSERT UPDATE DELETE'),
                ('dead_letters', 'SELECT INSERT UPDATE DELETE'),
                ('checks', 'SELECT INSERT UPDATE DELETE'),
                ('leases', 'SELECT INSERT UPDATE DELETE'),
                ('runs', 'SELECT INSERT UPDATE DELETE'),
                ('run_findings', 'SELECT INSERT'),
                ('pacing', 'SELECT INSERT UPDATE'),
                ('idempotency_keys', 'SELECT INSERT UPDATE DELETE'),
                ('outbox', 'SELECT INSERT UPDATE DELETE'),
                ('outbox_set_aside', 'SELECT INSERT UPDATE DELETE'),
                ('outbox_progress', 'SELECT INSERT UPDATE'),
                ('write_probes', 'SELECT INSERT UPDATE')) AS t (name, privileges)"
    };
}

/// What the role may not do of all that a service does, as `INSERT on payments`. Looks at the catalogue only; a table that
/// isn't there can't be read either.
pub(crate) const NOT_PERMITTED: &str = concat!(
    "
    SELECT n.privilege || ' on ' || n.name
      FROM (SELECT t.name, unnest(string_to_array(t.privileges, ' ')) AS privilege
              FROM ",
    tables!(),
    ") AS n
     WHERE CASE WHEN to_regclass(n.name) IS NULL THEN true
                ELSE NOT has_table_privilege(n.name, n.privilege) END
     ORDER BY 1"
);

/// The tables that can't be written because of a lock of another session, or of one that waits for such a lock: whoever
/// asks later waits behind it. Looks at the lock table only, and needs no right.
pub(crate) const LOCKED: &str = concat!(
    "
    SELECT DISTINCT t.name
      FROM ",
    tables!(),
    "
      JOIN pg_locks AS l ON l.locktype = 'relation' AND l.relation = to_regclass(t.name)
     WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
       AND l.pid <> pg_backend_pid()
     ORDER BY 1"
);

#[cfg(test)]
pub(crate) const ALL: &[(&str, Sql)] = super::named![WRITE_PROBE];
