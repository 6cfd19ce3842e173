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

    /// Changes the schema past the service.
    pub(crate) async fn alter(&self, statement: &'static str) {
        if self.folder.is_some() {
            let mut file = SqliteConnection::connect(&self.url).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut file).await.unwrap();
            file.close().await.unwrap();
        } else {
            let mut past = self.connect().await;
            sqlx::raw_sql(statement).execute(&mut past).await.unwrap();
            past.close().await.unwrap();
        }
    }

    /// Damages a row past the service and past the checks of the schema.
    pub(crate) async fn damage(&self, statement: &'static str) {
        let touched = if self.folder.is_some() {
            let mut file = SqliteConnection::connect(&self.url).await.unwrap();
            let unchecked = "PRAGMA ignore_check_constraints = ON";
            sqlx::raw_sql(unchecked).execute(&mut file).await.unwrap();
            let done = sqlx::query(statement).execute(&mut file).await.unwrap();
            file.close().await.unwrap();
            done.rows_affected()
        } else {
            let mut past = self.connect().await;
            sqlx::raw_sql(DROP_CHECKS).execute(&mut past).await.unwrap();
            let done = sqlx::query(statement).execute(&mut past).await.unwrap();
            past.close().await.unwrap();
            done.rows_affected()
        };
        assert!(touched > 0, "{statement} changed nothing");
    }
}

/// PostgreSQL has no switch for them.
const DROP_CHECKS: &str = "
    DO $$ DECLARE c record; BEGIN
        FOR c IN SELECT conname, conrelid::regclass AS of FROM pg_constraint
                  WHERE contype = 'c' AND connamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.of, c.conname);
        END LOOP;
    END $$";

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // Left to the system's cleaner if something still holds a file.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
