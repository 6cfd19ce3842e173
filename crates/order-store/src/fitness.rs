//! Whether this service can work with a PostgreSQL database: checked once, before anything is written.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Row as _};

use crate::call::joined;
use crate::error::{Error, Unfit, doing};
use crate::sessions::Sessions;
use crate::sql;
use crate::store::{Backend, Store};

/// How long the look may take. A pooler that has one connection to give lets the second one wait for ever.
const EXAMINE_DEADLINE: Duration = Duration::from_secs(5);

/// Which of two connections asks which session it has: several times in a row, and in turns.
const TURNS: [usize; 6] = [0, 0, 1, 1, 0, 1];

impl Store {
    /// Brings a fit database up to date, or only checks that it is; returns how many migrations were applied.
    ///
    /// # Errors
    /// [`Error::Unfit`] before anything was written, if this is no database to work with.
    pub async fn prepare(&self, migrate: bool) -> Result<usize, Error> {
        self.check_fit().await?;
        if migrate {
            return self.migrate().await;
        }
        self.find_schema().await?;
        Ok(0)
    }

    async fn check_fit(&self) -> Result<(), Error> {
        let Backend::Postgres(sessions) = self.backend() else {
            return Ok(());
        };
        let sessions = sessions.clone();
        joined(async move {
            tokio::time::timeout(EXAMINE_DEADLINE, examine(&sessions))
                .await
                .unwrap_or(Err(Error::Deadline(EXAMINE_DEADLINE)))
        })
        .await
    }
}

async fn examine(sessions: &Sessions) -> Result<(), Error> {
    const DOING: &str = "examining the database";
    let first = sessions.connect_apart().await.map_err(doing(DOING))?;
    let second = sessions.connect_apart().await.map_err(doing(DOING))?;
    let mut pair = [first, second];
    let row = sqlx::raw_sql(sql::session::FITNESS)
        .fetch_one(&mut pair[0])
        .await
        .map_err(doing(DOING))?;
    let text = |column: usize| row.try_get::<String, _>(column).map_err(doing(DOING));
    let (name, encoding) = (text(0)?, text(1)?);
    if encoding != "UTF8" {
        return Err(Unfit::Encoding { name, encoding }.into());
    }
    if text(2)? == "off" {
        tracing::warn!(
            database = name,
            "synchronous_commit is off: a crash of the database server loses what was acknowledged"
        );
    }
    if !has_sessions(&mut pair).await.map_err(doing(DOING))? {
        return Err(Unfit::Pooler.into());
    }
    for conn in pair {
        // An error at the end takes nothing back of what was seen.
        let _ = conn.close().await;
    }
    Ok(())
}

/// Whether each of two connections has a server process of its own. A pooler in transaction mode lends one to any client
/// that asks: the one that was free last, or each in its turn; the last answer is given while the other connection holds
/// what it was lent.
async fn has_sessions(pair: &mut [PgConnection; 2]) -> Result<bool, sqlx::Error> {
    let mut seen = [HashSet::new(), HashSet::new()];
    for at in TURNS {
        seen[at].insert(backend(&mut pair[at]).await?);
    }
    if !is_one_each(&seen) {
        return Ok(false);
    }
    let [first, second] = pair;
    if let Err(error) = sqlx::raw_sql("BEGIN").execute(&mut *second).await {
        // The statement mode of pgbouncer knows no transactions.
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code);
        return if code.as_deref() == Some("08P01") {
            Ok(false)
        } else {
            Err(error)
        };
    }
    seen[1].insert(backend(second).await?);
    seen[0].insert(backend(first).await?);
    sqlx::raw_sql(sql::ROLLBACK).execute(second).await?;
    Ok(is_one_each(&seen))
}

fn is_one_each([first, second]: &[HashSet<String>; 2]) -> bool {
    first.len() == 1 && second.len() == 1 && first.is_disjoint(second)
}

async fn backend(conn: &mut PgConnection) -> Result<String, sqlx::Error> {
    sqlx::raw_sql(sql::session::BACKEND)
        .fetch_one(conn)
        .await?
        .try_get(0)
}
