//! One transaction on a connection of its own.
//!
//! It sends BEGIN and COMMIT itself, and closes its connection when it is dropped before its end was answered.

use std::sync::Arc;

use sqlx::Row as _;
use time::OffsetDateTime;

use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::moved::Moved;
use crate::outbox::Unpublished;
use crate::rows::Checked;
use crate::run::fetch_all;
use crate::sql::{self, Sql};
use crate::ts::Ts;
use crate::unreadable::UnreadableRows;

/// An open transaction.
#[derive(Debug)]
pub(crate) struct Tx {
    conn: Option<Conn>,
    now: Ts,
    /// What it moved; the listener is notified after the commit.
    pub(crate) moved: Vec<Moved>,
    /// What is to be published of it; written to the outbox as its last step.
    pub(crate) unpublished: Unpublished,
    unreadable: Arc<UnreadableRows>,
}

/// How a transaction is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reads and writes; on SQLite the write lock is taken at once.
    Write,
    /// Like a write, and rolled back at its end.
    DryRun,
    /// One consistent snapshot, read only.
    Snapshot,
}

impl Tx {
    /// Opens a transaction and reads the clock: the database's, unless one is given.
    pub(crate) async fn begin(
        conn: Conn,
        mode: Mode,
        now: Option<OffsetDateTime>,
        unreadable: Arc<UnreadableRows>,
    ) -> Result<Self, Error> {
        let begin = match mode {
            Mode::Write | Mode::DryRun => sql::BEGIN_WRITE,
            Mode::Snapshot => sql::BEGIN_SNAPSHOT,
        };
        // Owned by the transaction before the first word is sent: a future dropped from here on
        // closes it.
        let mut tx = Self {
            conn: Some(conn),
            now: Ts(OffsetDateTime::UNIX_EPOCH),
            moved: Vec::new(),
            unpublished: Unpublished::default(),
            unreadable,
        };
        let clock = tx.open(begin).await?;
        tx.now = match (now, clock) {
            (Some(at), _) => Ts::truncated(at),
            (None, Some(clock)) => clock,
            (None, None) => tx.read_clock().await?,
        };
        Ok(tx)
    }

    /// Sends BEGIN. PostgreSQL returns its time with it, and the mark of the session: if that isn't the connection's, its
    /// prepared statements must not be used.
    async fn open(&mut self, begin: Sql) -> Result<Option<Ts>, Error> {
        const DOING: &str = "opening a transaction";
        match self.conn() {
            Conn::Postgres(c) => {
                let answered = sqlx::raw_sql(begin.postgres).fetch_all(&mut **c).await;
                let answered = answered.map_err(doing(DOING))?;
                let row = answered.last().ok_or(sqlx::Error::RowNotFound);
                let row = row.map_err(doing(DOING))?;
                let micros: i64 = row.try_get(0).map_err(doing(DOING))?;
                let mark: String = row.try_get(1).map_err(doing(DOING))?;
                if !c.is_marked(&mark) {
                    return Err(Error::SessionChanged);
                }
                let at = Ts::from_micros(micros);
                let at = at.map_err(|error| sqlx::Error::Decode(error.into()));
                at.map(Some).map_err(doing(DOING))
            }
            Conn::Sqlite(c) => {
                let done = sqlx::raw_sql(begin.sqlite).execute(&mut **c).await;
                done.map(|_| None).map_err(doing(DOING))
            }
        }
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

    /// Remembers rows that couldn't be read, whatever becomes of this transaction.
    pub(crate) fn note_unreadable(&self, errors: &[Error]) {
        for error in errors {
            self.unreadable.note(error);
        }
    }

    /// The one row that was asked for by its key, if it is there; remembered if it can't be read.
    pub(crate) fn only<T>(&self, rows: Vec<Checked<T>>) -> Result<Option<T>, Error> {
        self.unreadable.only(rows)
    }

    /// Commits. An error leaves the outcome unknown.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.end(sql::COMMIT).await.map_err(Error::CommitUnknown)
    }

    /// Rolls back. An error closes the connection, which rolls back as well.
    pub(crate) async fn rollback(self) {
        if let Err(error) = self.end(sql::ROLLBACK).await {
            tracing::debug!(error = %error, "rollback failed; connection closed");
        }
    }

    async fn end(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        match self.conn() {
            Conn::Postgres(c) => sqlx::raw_sql(statement).execute(&mut **c).await.map(drop),
            Conn::Sqlite(c) => sqlx::raw_sql(statement).execute(&mut **c).await.map(drop),
        }?;
        // Answered: back to the pool.
        if let Some(conn) = self.conn.take() {
            conn.give_back();
        }
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
