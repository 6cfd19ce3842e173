//! A database of one measurement, filled and read past the service.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, Result};
use futures_util::TryStreamExt as _;
use order_store::{DatabaseUrl, Store, StoreOptions};
use order_testkit::Postgres;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, SqliteConnection};

use crate::sql::{self, Sql};

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Sqlite,
}

impl Kind {
    /// Its name in a report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        }
    }
}

/// Where databases are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home<'a> {
    pub(crate) server: Option<&'a Postgres>,
    pub(crate) folder: &'a Path,
    /// SQL that PostgreSQL is to run before a database is filled.
    pub(crate) prepare: Option<&'a str>,
}

impl Home<'_> {
    fn server(&self) -> Result<&Postgres> {
        self.server.context("PostgreSQL was not started")
    }
}

/// A migrated database.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) kind: Kind,
    pub(crate) url: String,
    name: String,
    file: Option<PathBuf>,
}

/// A connection past the service.
#[derive(Debug)]
pub(crate) enum Conn {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// What a database says of an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) order_id: String,
    pub(crate) status: String,
    pub(crate) version: i64,
    pub(crate) transaction_id: Option<String>,
}

impl Database {
    /// Creates and migrates it.
    pub(crate) async fn create(home: Home<'_>, kind: Kind, name: &str) -> Result<Self> {
        let (url, file) = match kind {
            Kind::Postgres => {
                let server = home.server()?;
                let mut admin = PgConnection::connect(server.admin_url()).await?;
                let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
                sqlx::raw_sql(create).execute(&mut admin).await?;
                admin.close().await?;
                (server.url(name), None)
            }
            Kind::Sqlite => {
                let file = home.folder.join(format!("{name}.db"));
                (format!("sqlite://{}", file.display()), Some(file))
            }
        };
        let database = Self {
            kind,
            url,
            name: name.to_owned(),
            file,
        };
        let store = database.store()?;
        store.prepare(true).await?;
        store.close().await;
        if let (Kind::Postgres, Some(prepare)) = (kind, home.prepare) {
            let mut conn = PgConnection::connect(&database.url).await?;
            let prepare = AssertSqlSafe(prepare.to_owned());
            sqlx::raw_sql(prepare).execute(&mut conn).await?;
            conn.close().await?;
        }
        Ok(database)
    }

    /// The store that the service uses, with the options of `serve`.
    pub(crate) fn store(&self) -> Result<Store> {
        let url = DatabaseUrl::from_str(&self.url)?;
        Ok(Store::open(&url, StoreOptions::default()))
    }

    /// A connection past the service, for measuring: SQLite with the guarantees of the service.
    pub(crate) async fn connect(&self) -> Result<Conn> {
        Ok(match self.kind {
            Kind::Postgres => Conn::Postgres(PgConnection::connect(&self.url).await?),
            Kind::Sqlite => {
                let options = SqliteConnectOptions::from_str(&self.url)?
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full);
                Conn::Sqlite(options.connect().await?)
            }
        })
    }

    /// Fills it with orders `from` to `to`: unpaid ones, or a quarter in each of four statuses.
    pub(crate) async fn seed(&self, from: u64, to: u64, mixed: bool) -> Result<()> {
        const STEP: u64 = 500_000;
        let mut conn = self.connect().await?;
        if let Conn::Sqlite(file) = &mut conn {
            // Nothing is measured yet.
            sqlx::raw_sql("PRAGMA synchronous = OFF")
                .execute(file)
                .await?;
        }
        let mut first = from;
        while first <= to {
            let last = to.min(first + STEP - 1);
            for statement in sql::SEED {
                let numbers = [
                    i64::try_from(first)?,
                    i64::try_from(last)?,
                    i64::from(mixed),
                ];
                conn.execute(*statement, &numbers).await?;
            }
            first = last + 1;
        }
        conn.script(sql::REST).await?;
        conn.close().await
    }

    /// Drops it.
    pub(crate) async fn remove(self, home: Home<'_>) -> Result<()> {
        if let Some(file) = self.file {
            for end in ["", "-wal", "-shm", ".serve-lock", ".migrate-lock"] {
                let mut name = file.clone().into_os_string();
                name.push(end);
                // Not all of them are there.
                let _ = std::fs::remove_file(name);
            }
            return Ok(());
        }
        let mut admin = PgConnection::connect(home.server()?.admin_url()).await?;
        let drop = AssertSqlSafe(format!("DROP DATABASE {} WITH (FORCE)", self.name));
        sqlx::raw_sql(drop).execute(&mut admin).await?;
        Ok(admin.close().await?)
    }
}

impl Conn {
    /// Runs a statement with numbers.
    pub(crate) async fn execute(&mut self, sql: Sql, numbers: &[i64]) -> Result<()> {
        match self {
            Self::Postgres(conn) => {
                let query = sqlx::query(sql.postgres);
                let query = numbers
                    .iter()
                    .fold(query, |query, number| query.bind(*number));
                query.execute(conn).await?;
            }
            Self::Sqlite(conn) => {
                let query = sqlx::query(sql.sqlite);
                let query = numbers
                    .iter()
                    .fold(query, |query, number| query.bind(*number));
                query.execute(conn).await?;
            }
        }
        Ok(())
    }

    /// Runs statements without parameters.
    pub(crate) async fn script(&mut self, sql: Sql) -> Result<()> {
        match self {
            Self::Postgres(conn) => sqlx::raw_sql(sql.postgres).execute(conn).await.map(drop)?,
            Self::Sqlite(conn) => sqlx::raw_sql(sql.sqlite).execute(conn).await.map(drop)?,
        }
        Ok(())
    }

    /// A number.
    pub(crate) async fn number(&mut self, sql: &'static str) -> Result<i64> {
        Ok(match self {
            Self::Postgres(conn) => sqlx::query_scalar(sql).fetch_one(conn).await?,
            Self::Sqlite(conn) => sqlx::query_scalar(sql).fetch_one(conn).await?,
        })
    }

    /// Three numbers.
    pub(crate) async fn numbers(&mut self, sql: &'static str) -> Result<(i64, i64, i64)> {
        Ok(match self {
            Self::Postgres(conn) => sqlx::query_as(sql).fetch_one(conn).await?,
            Self::Sqlite(conn) => sqlx::query_as(sql).fetch_one(conn).await?,
        })
    }

    /// Words and how often each is there.
    pub(crate) async fn counts(&mut self, sql: &'static str) -> Result<Vec<(String, i64)>> {
        Ok(match self {
            Self::Postgres(conn) => sqlx::query_as(sql).fetch_all(conn).await?,
            Self::Sqlite(conn) => sqlx::query_as(sql).fetch_all(conn).await?,
        })
    }

    /// Every order, one by one.
    pub(crate) async fn orders(&mut self, mut take: impl FnMut(Row)) -> Result<()> {
        type Columns = (String, String, i64, Option<String>);
        let mut take = |(order_id, status, version, transaction_id): Columns| {
            take(Row {
                order_id,
                status,
                version,
                transaction_id,
            });
        };
        match self {
            Self::Postgres(conn) => {
                let mut rows = sqlx::query_as::<_, Columns>(sql::ORDERS).fetch(conn);
                while let Some(row) = rows.try_next().await? {
                    take(row);
                }
            }
            Self::Sqlite(conn) => {
                let mut rows = sqlx::query_as::<_, Columns>(sql::ORDERS).fetch(conn);
                while let Some(row) = rows.try_next().await? {
                    take(row);
                }
            }
        }
        Ok(())
    }

    /// Updates of orders, and the share of them that left the indexes alone, in per cent; PostgreSQL only.
    pub(crate) async fn hot_share(&mut self) -> Result<Option<f64>> {
        let Self::Postgres(conn) = self else {
            return Ok(None);
        };
        let row: (i64, i64) = sqlx::query_as(sql::HOT).fetch_one(conn).await?;
        let updates = u64::try_from(row.0).context("a negative count")?;
        let hot = u64::try_from(row.1).context("a negative count")?;
        let figure = crate::numbers::figure;
        Ok((updates > 0).then(|| 100.0 * figure(hot) / figure(updates)))
    }

    /// Ends the connection.
    pub(crate) async fn close(self) -> Result<()> {
        match self {
            Self::Postgres(conn) => conn.close().await?,
            Self::Sqlite(conn) => conn.close().await?,
        }
        Ok(())
    }
}
