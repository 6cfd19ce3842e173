//! Whether a SQLite file is still the one that was opened.
//!
//! A deleted file can be written for ever: what goes there is lost when the process ends. SQLite notices in its
//! rollback mode only, so the path is compared with what was there when the connections were opened: before each of them
//! is used, and after each commit, before the commit is reported.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::FileMoved;

/// The file behind the connections of a store.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    opened: Mutex<Opened>,
}

#[derive(Debug, Default)]
struct Opened {
    file: Option<FileId>,
    /// The write-ahead log and its index. SQLite makes new ones when no connection is left, so they are those of the
    /// writer of this moment; as long as it lives they stay.
    beside: Option<[FileId; 2]>,
    /// The lock of the process that serves the file.
    lock: Option<LockFile>,
}

/// What a file is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self::from(&std::fs::metadata(path)?))
    }
}

impl From<&Metadata> for FileId {
    fn from(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }
}

/// The lock file as it was locked. Another file at its path can be locked by another process.
#[derive(Debug, Clone)]
pub(crate) struct LockFile {
    path: PathBuf,
    id: FileId,
}

impl LockFile {
    pub(crate) fn new(path: PathBuf, locked: &Metadata) -> Self {
        let id = FileId::from(locked);
        Self { path, id }
    }

    pub(crate) fn check(&self) -> Result<(), FileMoved> {
        match FileId::of(&self.path) {
            Ok(found) if found == self.id => Ok(()),
            _ => Err(FileMoved::LockLost {
                path: self.path.display().to_string(),
            }),
        }
    }
}

impl OpenFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            opened: Mutex::default(),
        }
    }

    /// A connection was opened: to the same file as those before.
    pub(crate) fn opened(&self) -> Result<(), FileMoved> {
        let now = self.identify(&self.path)?;
        let file = *self.lock().file.get_or_insert(now);
        self.same(file == now)
    }

    /// The writer was opened: the log that it writes is what is there now.
    pub(crate) fn opened_to_write(&self) -> Result<(), FileMoved> {
        self.opened()?;
        let beside = self.beside();
        self.lock().beside = beside;
        Ok(())
    }

    /// From now on, the file may be used only as long as this lock is held.
    pub(crate) fn rely_on(&self, lock: LockFile) {
        self.lock().lock = Some(lock);
    }

    /// Whether the file is still there, and the lock on it; yes if it wasn't opened yet.
    pub(crate) fn check_path(&self) -> Result<(), FileMoved> {
        let (opened, lock) = {
            let opened = self.lock();
            (opened.file, opened.lock.clone())
        };
        if let Some(lock) = lock {
            lock.check()?;
        }
        match opened {
            Some(file) => self.same(file == self.identify(&self.path)?),
            None => Ok(()),
        }
    }

    /// Whether all that a commit was written to is still there. Asked while the writer is open.
    pub(crate) fn check_all(&self) -> Result<(), FileMoved> {
        self.check_path()?;
        let opened = self.lock().beside;
        match opened {
            Some(beside) => self.same(Some(beside) == self.beside()),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn same(&self, is_same: bool) -> Result<(), FileMoved> {
        if is_same {
            return Ok(());
        }
        let path = self.path.display().to_string();
        Err(FileMoved::Replaced { path })
    }

    fn identify(&self, path: &Path) -> Result<FileId, FileMoved> {
        FileId::of(path).map_err(|error| FileMoved::Gone {
            path: self.path.display().to_string(),
            why: error.to_string(),
            pid: std::process::id(),
        })
    }

    fn beside(&self) -> Option<[FileId; 2]> {
        // SQLite follows symbolic links, too, before it adds these to the name.
        let real = self.path.canonicalize().ok()?;
        let suffixed = |suffix: &str| {
            let mut path = real.clone().into_os_string();
            path.push(suffix);
            FileId::of(Path::new(&path)).ok()
        };
        Some([suffixed("-wal")?, suffixed("-shm")?])
    }
}
