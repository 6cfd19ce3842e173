//! Connections: how pools are made, and how they are doing.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Database, Pool, SqlitePool};

use crate::store::{Backend, PostgresBackend, Store, StoreOptions};

/// How a pool is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolGauges {
    /// Whether it is the one writer of a SQLite file, which stores share.
    pub is_shared_writer: bool,
    /// Connections that work.
    pub in_use: u32,
    /// Connections that wait for work.
    pub idle: u32,
    /// Connections at most.
    pub max: u32,
}

impl Store {
    /// The same database over connections of its own, with other options, so that its callers and
    /// those of this store don't take connections from one another. SQLite keeps its one writer.
    #[must_use]
    pub fn beside(&self, change: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = (*self.options).clone();
        change(&mut options);
        let backend = match self.backend() {
            Backend::Postgres(backend) => Backend::postgres(backend.connect.clone(), &options),
            Backend::Sqlite { writer, reader } => Backend::Sqlite {
                writer: writer.clone(),
                reader: sqlite_pool(
                    options.connections_max,
                    (*reader.connect_options()).clone(),
                    &options,
                ),
            },
        };
        Self::of(backend, options)
    }

    /// How the pools are doing.
    pub fn pools(&self) -> Vec<PoolGauges> {
        match self.backend() {
            Backend::Postgres(backend) => vec![gauges(&backend.pool(), false)],
            Backend::Sqlite { writer, reader } => vec![gauges(writer, true), gauges(reader, false)],
        }
    }

    /// How many calls were given up because no connection was to be had in time.
    pub fn acquire_timeouts(&self) -> u64 {
        self.acquire_timeouts.load(Ordering::Relaxed)
    }
}

impl Backend {
    pub(crate) fn postgres(connect: PgConnectOptions, options: &StoreOptions) -> Self {
        let pool_options = PgPoolOptions::new()
            .max_connections(options.connections_max)
            .acquire_timeout(options.acquire_timeout)
            // A connection was pinged when it came back; a dead one fails its transaction,
            // which is tried again.
            .test_before_acquire(false);
        let pool = pool_options.clone().connect_lazy_with(connect.clone());
        Self::Postgres(Arc::new(PostgresBackend {
            pool: Mutex::new(pool),
            connect,
            options: pool_options,
        }))
    }

    pub(crate) fn sqlite(path: &std::path::Path, options: &StoreOptions) -> Self {
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // Anything less loses commits with the power (WAL + NORMAL kept none).
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10))
            .foreign_keys(true);
        Self::Sqlite {
            writer: sqlite_pool(1, connect.clone(), options),
            reader: sqlite_pool(options.connections_max, connect, options),
        }
    }
}

fn sqlite_pool(max: u32, connect: SqliteConnectOptions, options: &StoreOptions) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(max)
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(connect)
}

fn gauges<DB: Database>(pool: &Pool<DB>, is_shared_writer: bool) -> PoolGauges {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    PoolGauges {
        is_shared_writer,
        in_use: pool.size().saturating_sub(idle),
        idle,
        max: pool.options().get_max_connections(),
    }
}
