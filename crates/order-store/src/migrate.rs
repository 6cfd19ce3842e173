//! The schema: embedded migrations, applied by one process, checked by every other.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlSafeStr as _};

use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::run::fetch_all;
use crate::sql::{self, Sql};
use crate::store::{Backend, Store};

/// The embedded migrations, oldest first: version, description, and their text in both dialects. A test holds this list
/// and the folders together.
#[expect(
    clippy::unreadable_literal,
    reason = "versions as they are in the files' names"
)]
const MIGRATIONS: &[Embedded] = &[
    embedded!(20261129000001, initial),
    embedded!(20261129000002, outbox),
    embedded!(20261129000003, refusals_by_age),
    embedded!(20261129000004, reconciliation),
    embedded!(20261129000005, idempotency),
    embedded!(20261130000001, checks),
    embedded!(20261130000002, outbox_by_transaction),
    embedded!(20261130000004, write_probes),
    embedded!(20261130000005, closed_dead_letters),
    embedded!(20261201000001, fill_factor),
    embedded!(20261201000003, exceptions_by_state),
];

/// How often a migration that takes long is logged.
const REPORT_EVERY: Duration = Duration::from_secs(5);

struct Embedded {
    version: i64,
    description: &'static str,
    sql: Sql,
}

/// Names the two files of a migration. It stands for sqlx's `migrate!`, which would make Cargo build both drivers once
/// more, for the host.
macro_rules! embedded {
    ($version:literal, $description:ident) => {
        Embedded {
            version: $version,
            description: stringify!($description),
            sql: Sql {
                postgres: include_str!(concat!(
                    "../../../migrations/postgres/",
                    $version,
                    "_",
                    stringify!($description),
                    ".sql"
                )),
                sqlite: include_str!(concat!(
                    "../../../migrations/sqlite/",
                    $version,
                    "_",
                    stringify!($description),
                    ".sql"
                )),
            },
        }
    };
}
use embedded;

impl Store {
    /// Applies the migrations that are missing; returns how many there were.
    pub async fn migrate(&self) -> Result<usize, Error> {
        match self.backend() {
            // Not over the pool, whose connections have limits: a migration takes as long as it takes, and so does the
            // wait for what another session has locked.
            Backend::Postgres(sessions) => {
                let conn = sessions.connect_apart().await;
                let conn = conn.map_err(doing("connecting to migrate"))?;
                patiently(migrate_postgres(conn)).await
            }
            Backend::Sqlite { writer, .. } => {
                let missing = self.missing_migrations().await?;
                if missing > 0 {
                    let applied = migrator(|sql| sql.sqlite).run(writer).await;
                    applied.map_err(Error::Migrate)?;
                }
                Ok(missing)
            }
        }
    }

    /// Whether the schema still has everything this version needs. If not, the next look is over new connections.
    pub async fn check_schema(&self) -> Result<(), Error> {
        let checked = self.find_schema().await;
        if let Err(Error::SchemaTooOld { .. }) = checked {
            self.doubt_sessions();
        }
        checked
    }

    /// Whether the schema has everything this version needs. A newer schema is fine: migrations
    /// expand first and contract a version later.
    pub(crate) async fn find_schema(&self) -> Result<(), Error> {
        match self.missing_migrations().await? {
            0 => Ok(()),
            missing => Err(Error::SchemaTooOld { missing }),
        }
    }

    async fn missing_migrations(&self) -> Result<usize, Error> {
        let read = self.read(READING, (), applied).await;
        let applied = read.map_err(|error| {
            let is_locked = error.is_lock_timeout();
            match error {
                Error::Database { source, .. } if is_locked => doing(LOCKED)(source),
                other => other,
            }
        })?;
        Ok(missing(&applied))
    }
}

const READING: &str = "reading the schema's version";

const LOCKED: &str =
    "reading the schema's version: another session has locked _sqlx_migrations, as a migration may";

fn missing(applied: &HashSet<i64>) -> usize {
    MIGRATIONS
        .iter()
        .filter(|known| !applied.contains(&known.version))
        .count()
}

async fn migrate_postgres(mut conn: PgConnection) -> Result<usize, Error> {
    let exists = sqlx::query_as::<_, (i64,)>(sql::migrations::EXIST.postgres)
        .fetch_one(&mut conn)
        .await
        .map_err(doing(READING))?;
    let mut applied = HashSet::new();
    if exists.0 != 0 {
        let rows = sqlx::query_as::<_, (i64,)>(sql::migrations::APPLIED.postgres)
            .fetch_all(&mut conn)
            .await
            .map_err(doing(READING))?;
        applied.extend(rows.into_iter().map(|row| row.0));
    }
    let missing = missing(&applied);
    if missing > 0 {
        let applied = migrator(|sql| sql.postgres).run(&mut conn).await;
        applied.map_err(Error::Migrate)?;
    }
    Ok(missing)
}

/// Waits for a migration without end, and logs that it does.
async fn patiently<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(REPORT_EVERY, &mut work).await {
            return done;
        }
        tracing::warn!(
            "migrations not finished yet; they wait as long as another instance migrates or another session has \
             locked a table (pg_stat_activity shows it)"
        );
    }
}

async fn applied(conn: &mut Conn, (): &()) -> sqlx::Result<HashSet<i64>> {
    let exists = fetch_all!(conn, (i64,), sql::migrations::EXIST)?;
    if exists.first().is_none_or(|row| row.0 == 0) {
        return Ok(HashSet::new());
    }
    let rows = fetch_all!(conn, (i64,), sql::migrations::APPLIED)?;
    Ok(rows.into_iter().map(|row| row.0).collect())
}

/// The migrations of one dialect. An older binary must be able to run beside a newer schema.
fn migrator(dialect: fn(&Sql) -> &'static str) -> Migrator {
    let migrations = MIGRATIONS.iter().map(|embedded| {
        Migration::new(
            embedded.version,
            embedded.description.replace('_', " ").into(),
            MigrationType::Simple,
            dialect(&embedded.sql).into_sql_str(),
            false,
        )
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.set_ignore_missing(true);
    migrator
}

/// The file names that the embedded migrations stand for, in each dialect's folder.
#[cfg(test)]
pub(crate) fn file_names() -> Vec<String> {
    MIGRATIONS
        .iter()
        .map(|embedded| format!("{}_{}.sql", embedded.version, embedded.description))
        .collect()
}
