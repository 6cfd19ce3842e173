//! The lock of a SQLite file that only one process serves.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::file_fitness::{create, real_path, unfit};
use crate::open_file::LockFile;
use crate::store::{Backend, DatabaseUrl, Store};

/// Held while a process serves a SQLite file; released when the process ends, however it ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
    watched: LockFile,
}

impl DatabaseUrl {
    /// Locks the file that only one process may serve, and makes it if it doesn't exist; does nothing for PostgreSQL.
    ///
    /// # Errors
    /// [`Error::FileInUse`] if another process has the lock.
    pub fn lock_for_serving(&self) -> Result<Option<FileLock>, Error> {
        self.sqlite_path()
            .map(|path| lock(path, "serve-lock"))
            .transpose()
    }
}

impl Store {
    /// Nothing is read or written any more once this lock is lost, because its file was deleted or replaced.
    pub fn rely_on(&self, lock: &FileLock) {
        if let Backend::Sqlite { file, .. } = self.backend() {
            file.rely_on(lock.watched.clone());
        }
    }
}

fn lock(database: &Path, extension: &str) -> Result<FileLock, Error> {
    create(database)?;
    let mut path = real_path(database)?.into_os_string();
    path.push(".");
    path.push(extension);
    let path = PathBuf::from(path);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| unfit(&path, &error))?;
    let in_use = || Error::FileInUse {
        path: path.display().to_string(),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use()),
        Err(TryLockError::Error(error)) => return Err(unfit(&path, &error)),
    }
    let metadata = file.metadata().map_err(|error| unfit(&path, &error))?;
    let watched = LockFile::new(path.clone(), &metadata);
    // Deleted between the opening and the locking: the process that deleted it may have locked the next one.
    watched.check().map_err(|_| in_use())?;
    Ok(FileLock {
        _file: file,
        watched,
    })
}
