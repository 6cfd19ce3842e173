//! A database of its own for a test.

use std::path::PathBuf;

use order_testkit::{Postgres, unique_name};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

/// An empty database; the service migrates it.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    folder: Option<PathBuf>,
}

impl Database {
    /// On the PostgreSQL that all tests share.
    pub(crate) async fn postgres() -> Self {
        Self::on(Postgres::shared()).await
    }

    /// On a PostgreSQL of the test's own.
    pub(crate) async fn on(server: &Postgres) -> Self {
        let name = unique_name("it");
        let mut admin = PgConnection::connect(server.admin_url()).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
        Self {
            url: server.url(&name),
            folder: None,
        }
    }

    /// A SQLite file.
    pub(crate) fn sqlite() -> Self {
        let folder = std::env::temp_dir().join(unique_name("orderd_it"));
        std::fs::create_dir(&folder).unwrap();
        let url = format!("sqlite://{}/orderd.db", folder.display());
        Self {
            url,
            folder: Some(folder),
        }
    }

    /// A connection past the service.
    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    /// Changes a SQLite file past the service.
    pub(crate) async fn tamper(&self, statement: &'static str) {
        let mut file = SqliteConnection::connect(&self.url).await.unwrap();
        let done = sqlx::query(statement).execute(&mut file).await.unwrap();
        assert!(done.rows_affected() > 0, "{statement} changed nothing");
        file.close().await.unwrap();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // Left to the system's cleaner if something still holds a file.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
