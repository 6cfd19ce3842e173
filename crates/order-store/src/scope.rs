//! How far a failure reaches: the data, a part of a batch, or everything.

use std::fmt;
use std::sync::Arc;

use sqlx::error::DatabaseError;

use crate::error::Error;

/// PostgreSQL's `lock_timeout`.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// How far a failure reaches, for a caller that recorded many things at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The database refused the data itself: the same data will be refused again.
    Data,
    /// Something that a part of the batch met (a row, a lock, a right) or its size: other parts may go through.
    Part,
    /// Too slow, or the server is silent: [`Scope::Part`] if the database answers a question now, else [`Scope::Whole`].
    Slow,
    /// The database as a whole: nothing gets through now.
    Whole,
}

impl Error {
    /// How far this failure reaches.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Database { source, .. } => scope(source),
            // A bug that one message brings to light must not stop the others.
            Self::Inconsistent { .. } | Self::HeldBack(_) | Self::Raced(_) | Self::Panicked(_) => {
                Scope::Part
            }
            Self::Deadline(_) => Scope::Slow,
            Self::CommitUnknown(_)
            | Self::Migrate(_)
            | Self::SchemaTooOld { .. }
            | Self::Unfit(_)
            | Self::SessionChanged
            | Self::NotPermitted(_)
            | Self::FileMoved(_)
            | Self::FileInUse { .. }
            | Self::NoSuchFile { .. }
            | Self::FileUnfit { .. } => Scope::Whole,
        }
    }

    /// The first thing that is wrong, for a caller that does all or nothing.
    pub(crate) fn or_first_held(self) -> Self {
        let Self::HeldBack(facts) = self else {
            return self;
        };
        match facts.into_iter().next() {
            Some(fact) => Self::shared(fact.error),
            None => Self::Raced("finding what is held back"),
        }
    }

    /// An error that others have as well.
    fn shared(error: Arc<Self>) -> Self {
        Arc::try_unwrap(error).unwrap_or_else(|error| match &*error {
            Self::Inconsistent {
                table, column, id, ..
            } => Self::Inconsistent {
                table,
                column,
                id: id.clone(),
                source: Box::new(CauseOf(error.clone())),
            },
            _ => Self::Raced("finding what is held back"),
        })
    }

    /// Whether a lock was waited for as long as one may.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        let Self::Database { source, .. } = self else {
            return false;
        };
        let code = source.as_database_error().and_then(DatabaseError::code);
        code.is_some_and(|code| code == LOCK_NOT_AVAILABLE)
    }

    /// Whether this is about the row of this key.
    pub(crate) fn is_about(&self, key: &str) -> bool {
        matches!(self, Self::Inconsistent { id, .. } if id == key)
    }

    /// Whether a row may be to blame that an update met before it was read.
    pub(crate) fn may_be_a_row(&self) -> bool {
        match self {
            Self::Inconsistent { .. } => true,
            Self::Database { source, .. } => is_undecodable(source) || self.is_data(),
            _ => false,
        }
    }
}

/// The cause of an error that others have as well.
#[derive(Debug)]
struct CauseOf(Arc<Error>);

impl CauseOf {
    fn cause(&self) -> &dyn std::error::Error {
        let whole: &dyn std::error::Error = &*self.0;
        whole.source().unwrap_or(whole)
    }
}

impl fmt::Display for CauseOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.cause(), f)
    }
}

impl std::error::Error for CauseOf {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.0)?.source()
    }
}

/// Whether a value came that can't be decoded.
fn is_undecodable(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_)
    )
}

fn scope(error: &sqlx::Error) -> Scope {
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code();
            let code = code.as_deref().unwrap_or_default();
            if error
                .try_downcast_ref::<sqlx::sqlite::SqliteError>()
                .is_some()
            {
                sqlite_scope(code)
            } else {
                sqlstate_scope(code)
            }
        }
        // A value that can't be sent: the same one can't be sent later either.
        sqlx::Error::Encode(_) => Scope::Data,
        error if is_undecodable(error) => Scope::Part,
        _ => Scope::Whole,
    }
}

fn sqlstate_scope(code: &str) -> Scope {
    match code {
        // A statement's time limit: the server is there.
        "57014" => Scope::Slow,
        // A lock that is held for too long and a deadlock are about some rows. A right that was taken away is about one
        // table, or some rows.
        LOCK_NOT_AVAILABLE | "40P01" | "40001" | "42501" => Scope::Part,
        _ => match code.get(..2) {
            Some("22" | "23") => Scope::Data,
            // Damaged pages and indexes, limits of a row, errors of triggers and policies.
            Some("XX" | "54" | "P0" | "44" | "09") => Scope::Part,
            _ => Scope::Whole,
        },
    }
}

/// SQLite's extended result codes carry the primary code in their low byte.
fn sqlite_scope(code: &str) -> Scope {
    const CORRUPT: i32 = 11;
    const TOO_BIG: i32 = 18;
    const CONSTRAINT: i32 = 19;
    const MISMATCH: i32 = 20;
    match code.parse::<i32>().map(|code| code & 0xff) {
        Ok(TOO_BIG | CONSTRAINT | MISMATCH) => Scope::Data,
        Ok(CORRUPT) => Scope::Part,
        // A lock is on the whole file.
        _ => Scope::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reaches_as_far_as_what_caused_it() {
        for (code, expect) in [
            ("22021", Scope::Data),
            ("23514", Scope::Data),
            ("40001", Scope::Part),
            ("40P01", Scope::Part),
            ("42501", Scope::Part),
            ("54000", Scope::Part),
            ("55P03", Scope::Part),
            ("57014", Scope::Slow),
            ("P0001", Scope::Part),
            ("XX001", Scope::Part),
            ("08006", Scope::Whole),
            ("0A000", Scope::Whole),
            ("25006", Scope::Whole),
            ("42P01", Scope::Whole),
            ("53100", Scope::Whole),
            ("57P01", Scope::Whole),
            ("", Scope::Whole),
        ] {
            assert_eq!(sqlstate_scope(code), expect, "{code}");
        }
        for (code, expect) in [
            ("18", Scope::Data),
            ("275", Scope::Data),
            ("20", Scope::Data),
            ("11", Scope::Part),
            ("267", Scope::Part),
            ("5", Scope::Whole),
            ("8", Scope::Whole),
            ("10", Scope::Whole),
            ("13", Scope::Whole),
            ("", Scope::Whole),
        ] {
            assert_eq!(sqlite_scope(code), expect, "{code}");
        }
    }
}
