//! Reading tables whose statistics are always out of date.

use crate::call::Work;
use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::sql;
use crate::store::{Backend, Store};
use crate::tx::Tx;

impl Store {
    /// Reads tables whose statistics are always out of date: they grow and are emptied again.
    pub(super) async fn read_by_key<A, T, W>(
        &self,
        doing: &'static str,
        args: A,
        work: W,
    ) -> Result<T, Error>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        W: for<'a> Work<'a, Conn, A, T, sqlx::Error>,
    {
        match self.backend() {
            Backend::Sqlite { .. } => self.read(doing, args, work).await,
            Backend::Postgres(_) => {
                self.write(
                    "reading-by-key",
                    (doing, args, work),
                    read_by_key::<A, T, W>,
                )
                .await
            }
        }
    }
}

async fn read_by_key<A, T, W>(
    tx: &mut Tx,
    (what, args, work): &(&'static str, A, W),
) -> Result<T, Error>
where
    A: Sync,
    W: for<'a> Work<'a, Conn, A, T, sqlx::Error>,
{
    by_key(tx).await?;
    work(tx.conn(), args).await.map_err(doing(what))
}

/// Lets the rest of the transaction find rows by keys, whatever the planner believes about the tables: a
/// plan that was made while a table was short walks all of it when it is long.
pub(super) async fn by_key(tx: &mut Tx) -> Result<(), Error> {
    match tx.conn() {
        Conn::Postgres(c) => sqlx::raw_sql(sql::outbox::BY_KEY)
            .execute(&mut **c)
            .await
            .map(drop)
            .map_err(doing("preparing to read by key")),
        // It has no statistics to be misled by.
        Conn::Sqlite(_) => Ok(()),
    }
}
