//! Connections: how pools are made, and how they are doing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::error::FileMoved;
use crate::gets::Gets;
use crate::open_file::OpenFile;
use crate::sessions::{Asked, Sessions};
use crate::starved::Starved;
use crate::store::{Backend, Store, StoreOptions};

/// How a pool is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolGauges {
    /// Whether it is the one writer of a SQLite file, which stores share.
    pub is_shared_writer: bool,
    /// Connections in use.
    pub in_use: u32,
    /// Idle connections.
    pub idle: u32,
    /// Connections at most.
    pub max: u32,
}

impl Store {
    /// Why the pool of this store has no connection for its callers, if the last of them got none. Then another one is tried
    /// for: without readiness there may be no caller that does so. A surviving connection of another pool proves nothing.
    pub async fn starved(&self) -> Option<Starved> {
        let Backend::Postgres(sessions) = self.backend() else {
            return None;
        };
        sessions.starved()?;
        let acquired = sessions.acquire(self.options.acquire_timeout, Asked::default());
        if let Ok(session) = acquired.await {
            session.give_back();
        }
        sessions.starved()
    }

    /// The same database over connections of its own, with other options, so that its callers and
    /// those of this store don't take connections from one another. SQLite keeps its one writer.
    #[must_use]
    pub fn beside(&self, change: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = (*self.options).clone();
        change(&mut options);
        let backend = match self.backend() {
            Backend::Postgres(sessions) => {
                Backend::Postgres(sessions.beside(options.connections_max))
            }
            Backend::Sqlite {
                writer,
                reader,
                file,
            } => Backend::Sqlite {
                writer: writer.clone(),
                reader: sqlite_pool(
                    options.connections_max,
                    (*reader.connect_options()).clone(),
                    &options,
                    file,
                    OpenFile::opened,
                ),
                file: file.clone(),
            },
        };
        Self {
            backend,
            options: Arc::new(options),
            acquire_timeouts: Arc::default(),
            gets: Gets::default(),
            ..self.clone()
        }
    }

    /// How the pools are doing.
    pub fn pools(&self) -> Vec<PoolGauges> {
        match self.backend() {
            Backend::Postgres(sessions) => {
                sessions.trim();
                let (in_use, idle, max) = sessions.counts();
                vec![PoolGauges {
                    is_shared_writer: false,
                    in_use,
                    idle,
                    max,
                }]
            }
            Backend::Sqlite { writer, reader, .. } => {
                vec![gauges(writer, true), gauges(reader, false)]
            }
        }
    }

    /// How many calls were given up because no connection was free in time.
    pub fn acquire_timeouts(&self) -> u64 {
        self.acquire_timeouts.load(Ordering::Relaxed)
    }
}

impl Backend {
    pub(crate) fn postgres(connect: PgConnectOptions, options: &StoreOptions) -> Self {
        Self::Postgres(Sessions::new(
            connect,
            options.connections_max,
            Arc::default(),
        ))
    }

    pub(crate) fn sqlite(path: &Path, options: &StoreOptions) -> Self {
        // Made here, once: a connection that is opened later must not make an empty file where one was deleted. If it
        // can't be made, the first connection fails with the reason.
        let _ = std::fs::File::create_new(path);
        let connect = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            // Anything less loses commits with the power (WAL + NORMAL kept none).
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10))
            .foreign_keys(true);
        let file = Arc::new(OpenFile::new(path));
        Self::Sqlite {
            writer: sqlite_pool(
                1,
                connect.clone(),
                options,
                &file,
                OpenFile::opened_to_write,
            ),
            reader: sqlite_pool(
                options.connections_max,
                connect,
                options,
                &file,
                OpenFile::opened,
            ),
            file,
        }
    }
}

fn sqlite_pool(
    max: u32,
    connect: SqliteConnectOptions,
    options: &StoreOptions,
    file: &Arc<OpenFile>,
    opened: fn(&OpenFile) -> Result<(), FileMoved>,
) -> SqlitePool {
    let file = file.clone();
    SqlitePoolOptions::new()
        .max_connections(max)
        .acquire_timeout(options.acquire_timeout)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .after_connect(move |_, _| {
            let opened = opened(&file).map_err(|moved| sqlx::Error::Configuration(moved.into()));
            Box::pin(async move { opened })
        })
        .connect_lazy_with(connect)
}

fn gauges(pool: &SqlitePool, is_shared_writer: bool) -> PoolGauges {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    PoolGauges {
        is_shared_writer,
        in_use: pool.size().saturating_sub(idle),
        idle,
        max: pool.options().get_max_connections(),
    }
}
