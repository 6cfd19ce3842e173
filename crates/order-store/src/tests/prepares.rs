//! Every statement is prepared against both migrated schemas.

use sqlx::{Executor as _, SqlSafeStr as _};

use super::*;
use crate::conn::Conn;
use crate::sql;

on_both! {
    async fn every_statement_is_known_to_the_database(db) {
        let more = [
            sql::audit::ALL,
            sql::ops::ALL,
            sql::outbox::ALL,
            sql::reconcile::ALL,
        ];
        for (name, statement) in sql::ALL.iter().chain(more.into_iter().flatten()).copied() {
            let prepared = db.store.read(move |conn| Box::pin(async move {
                match conn {
                    Conn::Postgres(c) => c.prepare(statement.postgres.into_sql_str()).await.map(drop),
                    Conn::Sqlite(c) => c.prepare(statement.sqlite.into_sql_str()).await.map(drop),
                }
                .map_err(doing("preparing"))
            }));
            if let Err(error) = prepared.await {
                panic!("{name}: {error:?}");
            }
        }
    }
}
