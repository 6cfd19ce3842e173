//! Whether the database answers, and whether it takes writes.

use std::sync::OnceLock;

use rand::RngExt as _;

use crate::conn::Conn;
use crate::error::{Error, WriteRefusal, doing};
use crate::run::{execute, fetch_all};
use crate::sql;
use crate::store::{Backend, Store};
use crate::tx::Tx;

/// Rows of the table that probes are written to.
const SLOTS: i64 = 256;

impl Store {
    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.read("asking whether the database answers", (), ping)
            .await
    }

    /// How many transactions that moved orders this process has committed: as long as it grows, the database takes writes.
    pub fn moves(&self) -> u64 {
        self.writes.moves()
    }

    /// Why the database refused to write lately, if no order was moved since.
    pub fn write_refusal(&self) -> Option<WriteRefusal> {
        self.writes.refusal()
    }

    /// Writes a row, and checks whether the role may write everything that is needed.
    ///
    /// # Errors
    /// If the database doesn't take the row, or would not take something else.
    pub async fn try_to_write(&self) -> Result<(), Error> {
        static SLOT: OnceLock<i64> = OnceLock::new();
        let slot = *SLOT.get_or_init(|| rand::rng().random_range(0..SLOTS));
        self.write("trying to write", slot, write).await?;
        let lacking = match self.backend() {
            Backend::Postgres(_) => {
                self.read(
                    "asking for the role's rights",
                    sql::session::NOT_PERMITTED,
                    names,
                )
                .await?
            }
            Backend::Sqlite { .. } => Vec::new(),
        };
        if !lacking.is_empty() {
            return Err(Error::NotPermitted(lacking.join(", ")));
        }
        self.writes.tried();
        Ok(())
    }

    /// The tables that nothing can be written to, because another session has locked them as a whole. With SQLite,
    /// where only this process writes, there are none.
    pub async fn locked_tables(&self) -> Result<Vec<String>, Error> {
        match self.backend() {
            Backend::Postgres(_) => {
                self.read("looking for locked tables", sql::session::LOCKED, names)
                    .await
            }
            Backend::Sqlite { .. } => Ok(Vec::new()),
        }
    }
}

async fn ping(conn: &mut Conn, (): &()) -> sqlx::Result<()> {
    fetch_all!(conn, (i64,), sql::PING).map(drop)
}

async fn write(tx: &mut Tx, slot: &i64) -> Result<(), Error> {
    let now = tx.now();
    execute!(tx.conn(), sql::session::WRITE_PROBE, *slot, now)
        .map(drop)
        .map_err(doing("trying to write"))
}

async fn names(conn: &mut Conn, postgres: &&'static str) -> sqlx::Result<Vec<String>> {
    let Conn::Postgres(c) = conn else {
        return Ok(Vec::new());
    };
    sqlx::query_scalar(*postgres).fetch_all(&mut **c).await
}
