//! One connection with one transaction, and the macros that run a statement on either backend.
//!
//! A connection goes back to its pool only after COMMIT or ROLLBACK was answered. Whatever else
//! happens to a [`Tx`] (an error, a deadline, a dropped future) closes it: no pool ever holds a
//! connection with an open transaction.

use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Postgres, Sqlite};
use time::OffsetDateTime;

use crate::error::{Error, doing};
use crate::moved::Moved;
use crate::sql;
use crate::ts::Ts;

/// A statement in both dialects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sql {
    pub(crate) postgres: &'static str,
    pub(crate) sqlite: &'static str,
}

impl Sql {
    /// A statement that reads the same in both dialects.
    pub(crate) const fn both(text: &'static str) -> Self {
        Self {
            postgres: text,
            sqlite: text,
        }
    }
}

/// A connection to either database.
#[derive(Debug)]
pub(crate) enum Conn {
    Postgres(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

/// Runs a statement; the number of rows it touched.
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $bind:expr)* $(,)?) => {
        match $conn {
            $crate::conn::Conn::Postgres(c) => {
                sqlx::query($sql.postgres)$(.bind($bind))*.execute(&mut **c).await
                    .map(|done| done.rows_affected())
            }
            $crate::conn::Conn::Sqlite(c) => {
                sqlx::query($sql.sqlite)$(.bind($bind))*.execute(&mut **c).await
                    .map(|done| done.rows_affected())
            }
        }
    };
}

/// Runs a statement; all its rows.
macro_rules! fetch_all {
    ($conn:expr, $row:ty, $sql:expr $(, $bind:expr)* $(,)?) => {
        match $conn {
            $crate::conn::Conn::Postgres(c) => {
                sqlx::query_as::<_, $row>($sql.postgres)$(.bind($bind))*.fetch_all(&mut **c).await
            }
            $crate::conn::Conn::Sqlite(c) => {
                sqlx::query_as::<_, $row>($sql.sqlite)$(.bind($bind))*.fetch_all(&mut **c).await
            }
        }
    };
}

pub(crate) use {execute, fetch_all};

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Tx {
    conn: Option<Conn>,
    now: Ts,
    /// What it moved; told to the listener after the commit.
    pub(crate) moved: Vec<Moved>,
}

/// How a transaction is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reads and writes; on SQLite the write lock is taken at once.
    Write,
    /// One consistent snapshot, read only.
    Snapshot,
}

impl Tx {
    /// Opens a transaction and reads the clock: the database's, unless one is given.
    pub(crate) async fn begin(
        conn: Conn,
        mode: Mode,
        now: Option<OffsetDateTime>,
    ) -> Result<Self, Error> {
        let begin = match mode {
            Mode::Write => sql::BEGIN_WRITE,
            Mode::Snapshot => sql::BEGIN_SNAPSHOT,
        };
        // Owned by the transaction before the first word is sent: a future dropped from here on
        // closes it.
        let mut tx = Self {
            conn: Some(conn),
            now: Ts(OffsetDateTime::UNIX_EPOCH),
            moved: Vec::new(),
        };
        match tx.conn() {
            Conn::Postgres(c) => sqlx::raw_sql(begin.postgres)
                .execute(&mut **c)
                .await
                .map(drop),
            Conn::Sqlite(c) => sqlx::raw_sql(begin.sqlite)
                .execute(&mut **c)
                .await
                .map(drop),
        }
        .map_err(doing("opening a transaction"))?;
        tx.now = match now {
            Some(at) => Ts::truncated(at),
            None => tx.read_clock().await?,
        };
        Ok(tx)
    }

    /// The time of this transaction.
    pub(crate) fn now(&self) -> Ts {
        self.now
    }

    /// The connection.
    pub(crate) fn conn(&mut self) -> &mut Conn {
        self.conn
            .as_mut()
            .expect("a transaction holds its connection until it ends")
    }

    /// Commits. An error leaves the outcome unknown.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.end(sql::COMMIT).await.map_err(Error::CommitUnknown)
    }

    /// Rolls back. An error closes the connection, which rolls back as well.
    pub(crate) async fn rollback(self) {
        if let Err(error) = self.end(sql::ROLLBACK).await {
            tracing::debug!(error = %error, "rollback failed; the connection is closed");
        }
    }

    async fn end(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        match self.conn() {
            Conn::Postgres(c) => sqlx::raw_sql(statement).execute(&mut **c).await.map(drop),
            Conn::Sqlite(c) => sqlx::raw_sql(statement).execute(&mut **c).await.map(drop),
        }?;
        // Answered: back to the pool.
        drop(self.conn.take());
        Ok(())
    }

    async fn read_clock(&mut self) -> Result<Ts, Error> {
        let rows: Result<Vec<(Ts,)>, _> = fetch_all!(self.conn(), (Ts,), sql::CLOCK);
        let rows = rows.map_err(doing("reading the clock"))?;
        rows.first().map(|row| row.0).ok_or(Error::Database {
            doing: "reading the clock",
            source: sqlx::Error::RowNotFound,
        })
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.close();
        }
    }
}

impl Conn {
    /// Closes the connection without a word: the other side may not be listening.
    pub(crate) fn close(self) {
        match self {
            Self::Postgres(c) => drop(c.detach()),
            Self::Sqlite(c) => drop(c.detach()),
        }
    }
}

/// How long a transaction may take. Longer than PostgreSQL's own statement time-out, so that the
/// server speaks first where it still can.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(15);

/// How long a read may take.
pub(crate) const READ_DEADLINE: Duration = Duration::from_secs(5);
