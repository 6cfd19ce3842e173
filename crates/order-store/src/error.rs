//! What can go wrong in the database, told apart by what a caller can do about it.

use std::time::Duration;

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
    /// The transaction may or may not be committed: tell the same facts again.
    #[error("it is unknown whether the transaction was committed")]
    CommitUnknown(#[source] sqlx::Error),
    /// A transaction took longer than its deadline; its connection was closed.
    #[error("the database did not answer within {0:?}")]
    Deadline(Duration),
    /// A concurrent writer changed what was just judged: nothing was written, try again.
    #[error("lost a race while {0}")]
    Raced(&'static str),
    /// Everything went well and was rolled back, as asked. Never leaves this crate.
    #[error("rolled back, as asked")]
    Rehearsed,
    /// A row that this version doesn't understand.
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
    /// Migrations could not be applied.
    #[error("the migrations could not be applied")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// The schema lacks migrations this version needs.
    #[error("the schema lacks {missing} migration(s): run `orderd migrate`")]
    SchemaTooOld {
        /// How many.
        missing: usize,
    },
    /// Another process holds the SQLite file.
    #[error("another process is serving {path}")]
    FileInUse {
        /// The lock file.
        path: String,
    },
    /// The SQLite file cannot be opened as this service needs it.
    #[error("{path} cannot be used: {why}")]
    FileUnfit {
        /// The database file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What the database said, by what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The data was refused: the same data will be refused again.
    Data,
    /// Two transactions got in each other's way: again, soon.
    Conflict,
    /// A fault of ours or of the database: again, later.
    Fault,
}

impl Error {
    /// Whether the same call may work later, unchanged.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Database { source, .. } => kind(source) != Kind::Data,
            Self::CommitUnknown(_) | Self::Deadline(_) | Self::Raced(_) => true,
            Self::Rehearsed
            | Self::Inconsistent { .. }
            | Self::Migrate(_)
            | Self::SchemaTooOld { .. }
            | Self::FileInUse { .. }
            | Self::FileUnfit { .. } => false,
        }
    }

    /// Whether the database refused the data itself.
    pub fn is_data(&self) -> bool {
        match self {
            Self::Database { source, .. } => kind(source) == Kind::Data,
            Self::CommitUnknown(_)
            | Self::Deadline(_)
            | Self::Raced(_)
            | Self::Rehearsed
            | Self::Inconsistent { .. }
            | Self::Migrate(_)
            | Self::SchemaTooOld { .. }
            | Self::FileInUse { .. }
            | Self::FileUnfit { .. } => false,
        }
    }

    /// Whether to try again at once, after a jittered moment.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Database { source, .. } | Self::CommitUnknown(source) => {
                kind(source) == Kind::Conflict
            }
            Self::Raced(_) => true,
            Self::Deadline(_)
            | Self::Rehearsed
            | Self::Inconsistent { .. }
            | Self::Migrate(_)
            | Self::SchemaTooOld { .. }
            | Self::FileInUse { .. }
            | Self::FileUnfit { .. } => false,
        }
    }
}

/// Names what was being done when sqlx failed.
pub(crate) fn doing(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Error {
    move |source| Error::Database { doing, source }
}

fn kind(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code();
            let code = code.as_deref().unwrap_or_default();
            if error
                .try_downcast_ref::<sqlx::sqlite::SqliteError>()
                .is_some()
            {
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
            ("0A000", Kind::Fault),
            ("25P02", Kind::Fault),
            ("42P01", Kind::Fault),
            ("53100", Kind::Fault),
            ("53300", Kind::Fault),
            ("57014", Kind::Fault),
            ("57P01", Kind::Fault),
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
