//! Whether a SQLite file has one name only.
//!
//! The write-ahead log, its index and the lock of `serve` lie beside the name and not beside the content: a process that
//! reaches the same content by another name has another log, and neither sees what the other one commits. Symbolic links
//! are followed first and do no harm. The file is looked at by its path and never opened: closing it would drop the locks
//! that SQLite holds on it in this process.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::error::Error;
use crate::store::DatabaseUrl;

const OTHER_NAMES: &str = "the write-ahead log and the lock lie beside a name, so what is committed under one name is \
     missing or lost under another one. Remove the other names (`find <mount> -samefile <file>` lists them) and start \
     again; for a backup, use `sqlite3 <file> '.backup <copy>'`";

const MOUNTED: &str = "it is mounted as a single file, so the write-ahead log and the lock would lie outside of the mount, \
     and what is committed would be lost with them. Mount the directory that the file is in";

impl DatabaseUrl {
    /// Looks at the SQLite file before anything opens it; does nothing for PostgreSQL. A file that doesn't exist is made if
    /// it may be.
    ///
    /// # Errors
    /// [`Error::NoSuchFile`] if it doesn't exist and may not be made; [`Error::FileUnfit`] if it has other names.
    pub fn check_file(&self, may_create: bool) -> Result<(), Error> {
        let Some(path) = self.sqlite_path() else {
            return Ok(());
        };
        if may_create {
            create(path)?;
        }
        real_path(path).map(|_| ())
    }
}

/// Creates an empty file if the file is missing.
pub(crate) fn create(path: &Path) -> Result<(), Error> {
    match File::create_new(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(unfit(path, &error)),
        _ => Ok(()),
    }
}

/// The only name of a file, without symbolic links.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf, Error> {
    let real = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::NoSuchFile {
            path: path.display().to_string(),
        },
        _ => unfit(path, &error),
    })?;
    let links = real
        .metadata()
        .map_err(|error| unfit(&real, &error))?
        .nlink();
    let why = if links > 1 {
        format!("it has {links} names (hard links), and {OTHER_NAMES}")
    } else if is_mount_point(&real) {
        MOUNTED.to_owned()
    } else {
        return Ok(real);
    };
    let path = real.display().to_string();
    Err(Error::FileUnfit { path, why })
}

/// False also if the system doesn't say it (Linux before 5.8).
fn is_mount_point(path: &Path) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

pub(crate) fn unfit(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::FileUnfit {
        path: path.display().to_string(),
        why: why.to_string(),
    }
}
