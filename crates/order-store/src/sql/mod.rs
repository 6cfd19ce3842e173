//! Every statement, as a constant, in the file of its table. Where the dialects differ, both stand side by side.
//!
//! PostgreSQL takes batches as arrays through `unnest`, SQLite as one JSON array of arrays through `json_each`; see
//! `batch`. What concerns no table is here.

pub(crate) mod audit;
pub(crate) mod checks;
pub(crate) mod dead_letters;
pub(crate) mod exceptions;
pub(crate) mod idempotency_keys;
pub(crate) mod leases;
pub(crate) mod migrations;
pub(crate) mod orders;
pub(crate) mod outbox;
pub(crate) mod outbox_set_aside;
pub(crate) mod pacing;
pub(crate) mod payments;
pub(crate) mod refusals;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod transitions;

/// A statement in both dialects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

impl Sql {
    /// A statement that reads the same in both dialects.
    pub(crate) const fn both(text: &'static str) -> Self {
        Self {
            postgres: text,
            sqlite: text,
        }
    }
}

/// A statement that locks the rows it reads. In SQLite the transaction has the lock of the whole file already.
macro_rules! locking {
    ($text:literal) => {
        $crate::sql::Sql {
            postgres: concat!($text, " FOR UPDATE"),
            sqlite: $text,
        }
    };
}
use locking;

/// A file's statements with their names, for the tests that look at each of them.
#[cfg(test)]
macro_rules! named {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}
#[cfg(test)]
use named;

/// READ COMMITTED is what the guards are written for, whatever the server's default is. PostgreSQL answers its time and
/// the mark of its session in the same round trip; `session::BEGIN` set the mark, and the limits of all statements.
pub(crate) const BEGIN_WRITE: Sql = Sql {
    postgres: "
        BEGIN ISOLATION LEVEL READ COMMITTED;
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
               coalesce(current_setting('orderd.session', true), '')",
    // Deferred, a read before the first write would fail with BUSY_SNAPSHOT at once.
    sqlite: "BEGIN IMMEDIATE",
};

/// Reads everything, for as long as it takes.
pub(crate) const BEGIN_SNAPSHOT: Sql = Sql {
    postgres: "
        BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
        SET LOCAL statement_timeout = 0;
        SET LOCAL lock_timeout = 0;
        SET LOCAL idle_in_transaction_session_timeout = 0;
        SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout';
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
               coalesce(current_setting('orderd.session', true), '')",
    sqlite: "BEGIN",
};

pub(crate) const COMMIT: &str = "COMMIT";

/// SQLite's; PostgreSQL's comes with BEGIN.
pub(crate) const CLOCK: Sql = Sql {
    postgres: "SELECT clock_timestamp()",
    sqlite: "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
};

pub(crate) const PING: Sql = Sql {
    postgres: "SELECT 1::bigint",
    sqlite: "SELECT 1",
};

pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Every statement, by its file and its name.
#[cfg(test)]
pub(crate) fn every() -> Vec<(String, Sql)> {
    let files: &[(&str, &[(&str, Sql)])] = &[
        ("mod", named![CLOCK, PING]),
        ("audit", audit::ALL),
        ("checks", checks::ALL),
        ("dead_letters", dead_letters::ALL),
        ("exceptions", exceptions::ALL),
        ("idempotency_keys", idempotency_keys::ALL),
        ("leases", leases::ALL),
        ("migrations", migrations::ALL),
        ("orders", orders::ALL),
        ("outbox", outbox::ALL),
        ("outbox_set_aside", outbox_set_aside::ALL),
        ("pacing", pacing::ALL),
        ("payments", payments::ALL),
        ("refusals", refusals::ALL),
        ("runs", runs::ALL),
        ("session", session::ALL),
        ("transitions", transitions::ALL),
    ];
    let named = files.iter().flat_map(|(file, statements)| {
        let named = statements
            .iter()
            .map(move |(name, statement)| (format!("{file}::{name}"), *statement));
        named.collect::<Vec<_>>()
    });
    named.collect()
}
