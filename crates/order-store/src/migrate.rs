//! The schema: embedded migrations, applied by one process, checked by every other.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use sqlx::migrate::Migrator;

use crate::conn::fetch_all;
use crate::error::{Error, doing};
use crate::sql;
use crate::store::{Backend, DatabaseUrl, Store};

static POSTGRES: Migrator = sqlx::migrate!("../../migrations/postgres");
static SQLITE: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// Held while a process serves a SQLite file; released when the process ends, however it ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl DatabaseUrl {
    /// Takes the file that only one serving process may have; nothing for PostgreSQL.
    ///
    /// # Errors
    /// [`Error::FileInUse`] if another process has it.
    pub fn lock_for_serving(&self) -> Result<Option<FileLock>, Error> {
        self.sqlite_path()
            .map(|path| lock(path, "serve-lock"))
            .transpose()
    }
}

fn lock(database: &Path, extension: &str) -> Result<FileLock, Error> {
    // One file may have several names.
    let database = match database.canonicalize() {
        Ok(real) => real,
        // It is created later; until then nobody serves it.
        Err(_) => database.to_owned(),
    };
    let mut path = database.into_os_string();
    path.push(".");
    path.push(extension);
    let path = PathBuf::from(path);
    let shown = path.display().to_string();
    let unfit = |error: std::io::Error| Error::FileUnfit {
        path: shown.clone(),
        why: error.to_string(),
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(unfit)?;
    match file.try_lock() {
        Ok(()) => Ok(FileLock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(Error::FileInUse { path: shown }),
        Err(TryLockError::Error(error)) => Err(unfit(error)),
    }
}

impl Store {
    /// Applies the migrations that are missing; returns how many there were.
    pub async fn migrate(&self) -> Result<usize, Error> {
        let missing = self.missing_migrations().await?;
        if missing == 0 {
            return Ok(0);
        }
        match self.backend() {
            Backend::Postgres(backend) => run(&POSTGRES).run(&backend.pool()).await,
            Backend::Sqlite { writer, .. } => run(&SQLITE).run(writer).await,
        }
        .map_err(Error::Migrate)?;
        Ok(missing)
    }

    /// Whether the schema has everything this version needs. A newer schema is fine: migrations
    /// expand first and contract a version later.
    pub async fn check_schema(&self) -> Result<(), Error> {
        match self.missing_migrations().await? {
            0 => Ok(()),
            missing => Err(Error::SchemaTooOld { missing }),
        }
    }

    async fn missing_migrations(&self) -> Result<usize, Error> {
        let applied = self.applied_migrations().await?;
        let migrator = match self.backend() {
            Backend::Postgres(_) => &POSTGRES,
            Backend::Sqlite { .. } => &SQLITE,
        };
        Ok(migrator
            .iter()
            .filter(|known| !applied.contains(&known.version))
            .count())
    }

    async fn applied_migrations(&self) -> Result<HashSet<i64>, Error> {
        self.read(|conn| {
            Box::pin(async move {
                let exists = fetch_all!(conn, (i64,), sql::MIGRATIONS_EXIST)
                    .map_err(doing("looking for the schema"))?;
                if exists.first().is_none_or(|row| row.0 == 0) {
                    return Ok(HashSet::new());
                }
                let rows = fetch_all!(conn, (i64,), sql::MIGRATIONS_APPLIED)
                    .map_err(doing("reading the schema's version"))?;
                Ok(rows.into_iter().map(|row| row.0).collect())
            })
        })
        .await
    }
}

/// An older binary must be able to run beside a newer schema.
fn run(migrator: &Migrator) -> Migrator {
    let mut migrator = Migrator::with_migrations(migrator.iter().cloned().collect());
    migrator.set_ignore_missing(true);
    migrator
}
