//! A connection to either database, and one that is lent for reads.
//!
//! A connection goes back to its pool only after everything that was asked is answered and no transaction is open.
//! Anything else (an error, a deadline, a dropped future) closes it: no pool ever holds a connection with an open
//! transaction.

use std::time::Duration;

use sqlx::Sqlite;
use sqlx::pool::PoolConnection;

use crate::sessions::Session;

/// A connection to either database.
#[derive(Debug)]
pub(crate) enum Conn {
    Postgres(Session),
    Sqlite(PoolConnection<Sqlite>),
}

impl Conn {
    /// Closes the connection without a goodbye: the other side may not be listening.
    pub(crate) fn close(self) {
        match self {
            Self::Postgres(c) => drop(c),
            Self::Sqlite(c) => drop(c.detach()),
        }
    }

    /// Back into its pool: what was asked is answered, and no transaction is open.
    pub(crate) fn give_back(self) {
        match self {
            Self::Postgres(c) => c.give_back(),
            Self::Sqlite(c) => drop(c),
        }
    }
}

/// A connection outside of a transaction. It is closed when it is dropped, unless it was given back: no panic and no
/// deadline in the middle of an answer leaves the rest of it to the next user.
#[derive(Debug)]
pub(crate) struct Lent(Option<Conn>);

impl Lent {
    pub(crate) fn new(conn: Conn) -> Self {
        Self(Some(conn))
    }

    pub(crate) fn conn(&mut self) -> &mut Conn {
        self.0
            .as_mut()
            .expect("a lent connection is there until it is given back")
    }

    pub(crate) fn give_back(mut self) {
        if let Some(conn) = self.0.take() {
            conn.give_back();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(conn) = self.0.take() {
            conn.close();
        }
    }
}

/// How long a transaction may take. Longer than PostgreSQL's own statement time-out, so that the
/// server speaks first where it still can.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(15);

/// How long a read may take: longer than PostgreSQL's own statement time-out, for the same reason.
pub(crate) const READ_DEADLINE: Duration = Duration::from_secs(7);

/// How long a server may take to answer anything; beyond it, its own statement time-out (`sql::session`) has passed.
pub(crate) const SILENCE: Duration = Duration::from_secs(6);
