//! What can go wrong in the database, by what a caller can do about it.

use std::sync::Arc;
use std::time::Duration;

use order_fsm::OrderId;

/// A store call that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database could not be reached, or answered with an error.
    #[error("the database failed while {doing}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: sqlx::Error,
    },
    /// The transaction may or may not be committed: record the same facts again.
    #[error(
        "the database did not confirm the commit, so the transaction may or may not be committed"
    )]
    CommitUnknown(#[source] sqlx::Error),
    /// A transaction took longer than its deadline; its connection was closed.
    #[error("the database did not answer within {0:?}")]
    Deadline(Duration),
    /// A concurrent writer changed what was just judged: nothing was written, try again.
    #[error("lost a race while {0}")]
    Raced(&'static str),
    /// A row that can't be read.
    #[error("inconsistent {table}.{column} of {id:?}")]
    Inconsistent {
        /// In which table.
        table: &'static str,
        /// In which column.
        column: &'static str,
        /// In which row.
        id: String,
        /// Why it could not be read.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Facts that can't be judged now, because rows can't be read; nothing was written. Never leaves this crate.
    #[error("{} fact(s) are held back", .0.len())]
    HeldBack(Vec<HeldFact>),
    /// Migrations could not be applied.
    #[error(
        "the migrations could not be applied: nothing else was started; correct the cause and run `orderd migrate` again"
    )]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// The schema lacks migrations this version needs.
    #[error("the schema lacks {missing} migration(s): run `orderd migrate`")]
    SchemaTooOld {
        /// How many.
        missing: usize,
    },
    /// This service can't work with the database; waiting doesn't help.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A transaction ran in another server session than its connection began with.
    #[error(
        "a connection pooler in transaction mode sits between orderd and PostgreSQL: nothing was sent in the other \
         session; use its session mode, or connect to PostgreSQL directly"
    )]
    SessionChanged,
    /// The role lacks rights that the service needs.
    #[error("the database role lacks rights that orderd needs: {0}")]
    NotPermitted(String),
    /// A bug of ours or of a library; its connection was closed.
    #[error("a database call panicked, which is a bug of orderd or of a library: {0}")]
    Panicked(String),
    /// The SQLite file isn't the one that was opened any more: what is written would be lost.
    #[error(transparent)]
    FileMoved(#[from] FileMoved),
    /// Another process holds the SQLite file.
    #[error("another process is serving this database file and holds {path}: stop it first")]
    FileInUse {
        /// The lock file.
        path: String,
    },
    /// There is no SQLite file at this path.
    #[error(
        "there is no database file {path}: check DATABASE_URL; `orderd serve` and `orderd migrate` create one"
    )]
    NoSuchFile {
        /// The path.
        path: String,
    },
    /// The SQLite file cannot be opened as this service needs it.
    #[error("cannot open or lock {path}: {why}")]
    FileUnfit {
        /// The database file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A fact or a waiting payment that can't be judged now, because a row can't be read.
#[derive(Debug, Clone)]
pub struct HeldFact {
    /// Its index among those that were passed in.
    pub index: usize,
    /// Its order.
    pub order_id: OrderId,
    /// What is wrong with which row.
    pub error: Arc<Error>,
}

/// Why a database can't be used; waiting doesn't help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Not every character of a message can be stored.
    #[error(
        "the database {name} has the encoding {encoding}, and orderd needs UTF8: \
         CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding {
        /// The database.
        name: String,
        /// Its encoding.
        encoding: String,
    },
    /// Prepared statements and limits belong to a session, and the session changes.
    #[error(
        "a connection pooler in transaction or statement mode sits between orderd and PostgreSQL, and orderd needs a \
         session of its own per connection: use the pooler's session mode (pgbouncer: pool_mode = session), or connect \
         to PostgreSQL directly"
    )]
    Pooler,
}

/// What happened to an open SQLite file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileMoved {
    /// Nothing is at its path any more, or it can't be looked at.
    #[error(
        "{path} is gone ({why}): nothing is recorded until it is back; while this process (id {pid}) lives, what was in \
         it can be copied from /proc/{pid}/fd"
    )]
    Gone {
        /// The path.
        path: String,
        /// The system's reason.
        why: String,
        /// This process.
        pid: u32,
    },
    /// Another file is at its path, or at that of its write-ahead log.
    #[error(
        "{path} is another file than the one that was opened (restored, or mounted again?): nothing is recorded into the \
         old one; start the service again"
    )]
    Replaced {
        /// The path.
        path: String,
    },
    /// The lock file that this process holds isn't at its path any more: another process could serve the database.
    #[error(
        "the lock file {path} was deleted or replaced, so another process could serve the same database: nothing more is \
         recorded; leave that file alone and start the service again"
    )]
    LockLost {
        /// The path.
        path: String,
    },
}

/// Why a database refuses to write. As a sentence it names nothing that a stranger must not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteRefusal {
    /// A standby, a demoted primary, a role's or a server's default, a file that can't be written.
    #[error("the database is read-only")]
    ReadOnly,
    /// A disk, a quota.
    #[error("the database has no room left")]
    Full,
    /// Rights were taken away.
    #[error("the database role may not write everything that is needed")]
    NotPermitted,
}

/// The database's answer, by what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The data was refused: the same data will be refused again.
    Data,
    /// Two transactions got in each other's way: again, soon.
    Conflict,
    /// The connection's prepared statements aren't those of its session (any more): again, over another one.
    Stale,
    /// A fault of ours or of the database: again, later.
    Fault,
}

impl Error {
    /// Whether the same call may work later, unchanged.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database { source, .. } => kind(source) != Kind::Data,
            Self::Migrate(error) => migrating(error).is_some_and(is_passing),
            Self::CommitUnknown(_)
            | Self::Deadline(_)
            | Self::Raced(_)
            | Self::SessionChanged
            | Self::NotPermitted(_)
            | Self::Panicked(_)
            | Self::FileMoved(_) => true,
            Self::Inconsistent { .. }
            | Self::HeldBack(_)
            | Self::SchemaTooOld { .. }
            | Self::Unfit(_)
            | Self::FileInUse { .. }
            | Self::NoSuchFile { .. }
            | Self::FileUnfit { .. } => false,
        }
    }

    /// Whether the database refused the data itself.
    pub fn is_data(&self) -> bool {
        self.cause()
            .is_some_and(|source| kind(source) == Kind::Data)
    }

    /// Why the database doesn't write, if that is what it said.
    pub fn write_refusal(&self) -> Option<WriteRefusal> {
        if let Self::NotPermitted(_) = self {
            return Some(WriteRefusal::NotPermitted);
        }
        self.cause().or_else(|| self.commit()).and_then(refusal)
    }

    /// Whether to try again at once, after a jittered moment.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Raced(_) => true,
            other => other
                .cause()
                .or_else(|| other.commit())
                .is_some_and(|source| matches!(kind(source), Kind::Conflict | Kind::Stale)),
        }
    }

    /// Whether the connection's prepared statements are of no use any more.
    pub(crate) fn is_stale(&self) -> bool {
        self.cause()
            .is_some_and(|source| kind(source) == Kind::Stale)
    }

    /// Whether the connection is gone, or was never there.
    pub(crate) fn is_lost(&self) -> bool {
        self.cause().or_else(|| self.commit()).is_some_and(is_away)
    }

    /// Whether the session looks at other tables than ours: its `search_path` leads elsewhere, or a schema is gone.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let code = self.cause().and_then(sqlx::Error::as_database_error);
        let code = code.and_then(sqlx::error::DatabaseError::code);
        matches!(code.as_deref(), Some("42P01" | "3F000"))
    }

    /// Whether the connection may be used again: the server has answered completely, maybe with an error.
    pub(crate) fn is_answered(&self) -> bool {
        let answered = match self.cause() {
            Some(sqlx::Error::Database(_)) => true,
            // The rest of an answer may still be on its way.
            Some(_) => false,
            None => !matches!(self, Self::SessionChanged | Self::Panicked(_)),
        };
        answered && !self.is_lost() && !self.is_stale()
    }

    /// What sqlx said about a statement.
    fn cause(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Database { source, .. } => Some(source),
            Self::CommitUnknown(_)
            | Self::Deadline(_)
            | Self::Raced(_)
            | Self::Inconsistent { .. }
            | Self::HeldBack(_)
            | Self::Migrate(_)
            | Self::SchemaTooOld { .. }
            | Self::Unfit(_)
            | Self::SessionChanged
            | Self::NotPermitted(_)
            | Self::Panicked(_)
            | Self::FileMoved(_)
            | Self::FileInUse { .. }
            | Self::NoSuchFile { .. }
            | Self::FileUnfit { .. } => None,
        }
    }

    /// Whether a row that was needed can't be read.
    pub fn is_inconsistent(&self) -> bool {
        matches!(self, Self::Inconsistent { .. })
    }

    /// What sqlx said about a COMMIT.
    fn commit(&self) -> Option<&sqlx::Error> {
        match self {
            Self::CommitUnknown(source) => Some(source),
            _ => None,
        }
    }
}

/// Names what was being done when sqlx failed.
pub(crate) fn doing(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Error {
    move |source| Error::Database { doing, source }
}

/// Whether the server can't be reached now, went away, or takes no more connections.
pub(crate) fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            // Admin shutdown, crash shutdown, cannot connect now, and the time-outs of a session that idles or has a
            // transaction open; too many connections; and the answers of poolers.
            !is_sqlite(error.as_ref())
                && (matches!(
                    code.as_ref(),
                    "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" | "53300"
                ) || code.starts_with("08"))
        }
        _ => false,
    }
}

/// What sqlx said about a migration.
fn migrating(error: &sqlx::migrate::MigrateError) -> Option<&sqlx::Error> {
    use sqlx::migrate::MigrateError;

    match error {
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => Some(source),
        _ => None,
    }
}

/// Whether a migration may work later: a wrong statement never does.
fn is_passing(error: &sqlx::Error) -> bool {
    let code = |error: &dyn sqlx::error::DatabaseError| {
        let code = error.code().unwrap_or_default();
        ["25", "53", "55", "57"]
            .iter()
            .any(|class| code.starts_with(class))
    };
    is_away(error) || kind(error) == Kind::Conflict || error.as_database_error().is_some_and(code)
}

fn refusal(error: &sqlx::Error) -> Option<WriteRefusal> {
    let error = error.as_database_error()?;
    let code = error.code().unwrap_or_default();
    if is_sqlite(error) {
        return match code.parse::<i32>().map(|code| code & 0xff) {
            Ok(8) => Some(WriteRefusal::ReadOnly),
            Ok(13) => Some(WriteRefusal::Full),
            _ => None,
        };
    }
    match code.as_ref() {
        "25006" => Some(WriteRefusal::ReadOnly),
        "53100" => Some(WriteRefusal::Full),
        "42501" => Some(WriteRefusal::NotPermitted),
        _ => None,
    }
}

fn is_sqlite(error: &dyn sqlx::error::DatabaseError) -> bool {
    error
        .try_downcast_ref::<sqlx::sqlite::SqliteError>()
        .is_some()
}

fn kind(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code();
            let code = code.as_deref().unwrap_or_default();
            if is_sqlite(error.as_ref()) {
                sqlite_kind(code)
            } else {
                sqlstate_kind(code)
            }
        }
        // A value that can't be sent: the same one can't be sent later either.
        sqlx::Error::Encode(_) => Kind::Data,
        _ => Kind::Fault,
    }
}

fn sqlstate_kind(code: &str) -> Kind {
    match code {
        "40001" | "40P01" | "55P03" => Kind::Conflict,
        // A cached plan that a migration outdated; a prepared statement that isn't there, or is there already.
        "0A000" | "26000" | "42P05" => Kind::Stale,
        _ if code.starts_with("22") || code.starts_with("23") => Kind::Data,
        _ => Kind::Fault,
    }
}

/// SQLite's extended result codes carry the primary code in their low byte.
fn sqlite_kind(code: &str) -> Kind {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const TOO_BIG: i32 = 18;
    const CONSTRAINT: i32 = 19;
    const MISMATCH: i32 = 20;
    match code.parse::<i32>().map(|code| code & 0xff) {
        Ok(BUSY | LOCKED) => Kind::Conflict,
        Ok(TOO_BIG | CONSTRAINT | MISMATCH) => Kind::Data,
        _ => Kind::Fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_data_did_is_blamed_on_the_data() {
        for (code, expect) in [
            ("22021", Kind::Data),
            ("22P02", Kind::Data),
            ("23514", Kind::Data),
            ("40001", Kind::Conflict),
            ("40P01", Kind::Conflict),
            ("55P03", Kind::Conflict),
            ("08006", Kind::Fault),
            ("0A000", Kind::Stale),
            ("25006", Kind::Fault),
            ("25P02", Kind::Fault),
            ("26000", Kind::Stale),
            ("28P01", Kind::Fault),
            ("3D000", Kind::Fault),
            ("42501", Kind::Fault),
            ("42P01", Kind::Fault),
            ("42P05", Kind::Stale),
            ("53100", Kind::Fault),
            ("53300", Kind::Fault),
            ("57014", Kind::Fault),
            ("57P01", Kind::Fault),
            ("57P03", Kind::Fault),
            ("XX000", Kind::Fault),
            ("", Kind::Fault),
        ] {
            assert_eq!(sqlstate_kind(code), expect, "{code}");
        }
        for (code, expect) in [
            ("5", Kind::Conflict),
            ("517", Kind::Conflict),
            ("6", Kind::Conflict),
            ("18", Kind::Data),
            ("275", Kind::Data),
            ("1555", Kind::Data),
            ("20", Kind::Data),
            ("10", Kind::Fault),
            ("13", Kind::Fault),
            ("11", Kind::Fault),
            ("", Kind::Fault),
        ] {
            assert_eq!(sqlite_kind(code), expect, "{code}");
        }
    }
}
