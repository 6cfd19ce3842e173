//! Pools, and the one way a call gets a connection.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::RngExt as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, SqlitePool};
use time::OffsetDateTime;

use crate::conn::{Conn, Mode, READ_DEADLINE, Tx, WRITE_DEADLINE};
use crate::crash;
use crate::error::{self, Error};
use crate::moved::Listener;

/// How often a call is tried again at once when it lost against a concurrent one.
const ATTEMPTS_MAX: u32 = 8;

/// Where the data is.
#[derive(Clone)]
pub struct DatabaseUrl(Url);

#[derive(Clone)]
enum Url {
    Postgres(Box<PgConnectOptions>),
    Sqlite(PathBuf),
}

/// A URL of no database this service knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be sqlite://<file> or postgres://<user>@<host>/<database>")]
pub struct InvalidUrl;

impl FromStr for DatabaseUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(text).map_err(|_| InvalidUrl)?;
            let options = Box::new(options.application_name("orderd"));
            return Ok(Self(Url::Postgres(options)));
        }
        let path = text
            .strip_prefix("sqlite://")
            .or_else(|| text.strip_prefix("sqlite:"));
        // What others have to ask for is how this service opens its file anyway; other options
        // it sets itself.
        let path = path.map(|path| path.strip_suffix("?mode=rwc").unwrap_or(path));
        match path {
            Some(path) if !path.is_empty() && !path.contains('?') && !path.contains(":memory:") => {
                Ok(Self(Url::Sqlite(PathBuf::from(path))))
            }
            _ => Err(InvalidUrl),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without the password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Url::Postgres(options) => write!(
                f,
                "postgres://{}@{}:{}/{}",
                options.get_username(),
                options.get_host(),
                options.get_port(),
                options.get_database().unwrap_or_default()
            ),
            Url::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
        }
    }
}

impl DatabaseUrl {
    /// The SQLite file, if it is one.
    pub fn sqlite_path(&self) -> Option<&PathBuf> {
        match &self.0 {
            Url::Postgres(_) => None,
            Url::Sqlite(path) => Some(path),
        }
    }
}

/// Whose time is compared and written.
#[derive(Debug, Clone, Copy, Default)]
pub enum Clock {
    /// The database's: one for all instances.
    #[default]
    Database,
    /// A given one, for tests.
    Fixed(OffsetDateTime),
}

/// How a store works.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The live mode of the service: other events are `NOT_LIVE`.
    pub livemode: bool,
    /// How long an order without a `pay_by` may be paid.
    pub pay_within: Duration,
    /// When the payment service is first asked about an order.
    pub check_after: Duration,
    /// How long after an order left `NOT_PAID` it is asked for the last time, if at all.
    pub last_check_after: Option<Duration>,
    /// Connections at most; SQLite has one writer whatever this says.
    pub connections_max: u32,
    /// How long a call waits for a connection.
    pub acquire_timeout: Duration,
    /// Whose time it is.
    pub clock: Clock,
    /// Pay unambiguous orders without judging them under a lock first. All is correct without.
    pub fast_advance: bool,
    /// Who is told of committed steps.
    pub listener: Option<Arc<dyn Listener>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            livemode: true,
            pay_within: Duration::from_mins(30),
            check_after: Duration::from_mins(5),
            last_check_after: Some(Duration::from_hours(24)),
            connections_max: 4,
            acquire_timeout: Duration::from_secs(5),
            clock: Clock::Database,
            fast_advance: true,
            listener: None,
        }
    }
}

/// A database with the rules of the contract. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Backend,
    pub(crate) options: Arc<StoreOptions>,
    pub(crate) acquire_timeouts: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
pub(crate) enum Backend {
    Postgres(Arc<PostgresBackend>),
    Sqlite {
        writer: SqlitePool,
        reader: SqlitePool,
    },
}

#[derive(Debug)]
pub(crate) struct PostgresBackend {
    pub(crate) pool: Mutex<PgPool>,
    pub(crate) connect: PgConnectOptions,
    pub(crate) options: PgPoolOptions,
}

impl PostgresBackend {
    /// The pool of this moment.
    pub(crate) fn pool(&self) -> PgPool {
        self.pool
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Backend {
    /// Starts over with new connections after one did not answer: the others of the old pool lead
    /// to the same silent server, and each would cost a deadline of its own.
    fn replace_pool(&self) {
        if let Self::Postgres(backend) = self {
            let fresh = backend
                .options
                .clone()
                .connect_lazy_with(backend.connect.clone());
            let mut pool = backend.pool.lock().unwrap_or_else(PoisonError::into_inner);
            tracing::warn!("the database did not answer in time; its connections are replaced");
            // Idle connections end with the last handle; those in use with their calls.
            *pool = fresh;
        }
    }
}

/// A step of a transaction: it borrows the transaction and owns the rest.
pub(crate) type Step<'a, T> = BoxFuture<'a, Result<T, Error>>;

impl Store {
    /// Prepares the pools; connections are opened when they are needed.
    pub fn open(url: &DatabaseUrl, options: StoreOptions) -> Self {
        let backend = match &url.0 {
            Url::Postgres(connect) => Backend::postgres((**connect).clone(), &options),
            Url::Sqlite(path) => Backend::sqlite(path, &options),
        };
        Self::of(backend, options)
    }

    pub(crate) fn of(backend: Backend, options: StoreOptions) -> Self {
        Self {
            backend,
            options: Arc::new(options),
            acquire_timeouts: Arc::default(),
        }
    }

    /// The same database with other options; SQLite keeps its one writer.
    #[must_use]
    pub fn with_options(&self, change: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = (*self.options).clone();
        change(&mut options);
        Self {
            backend: self.backend.clone(),
            options: Arc::new(options),
            acquire_timeouts: self.acquire_timeouts.clone(),
        }
    }

    /// Closes the pools; waits for connections in use.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Postgres(backend) => backend.pool().close().await,
            Backend::Sqlite { writer, reader } => {
                reader.close().await;
                writer.close().await;
            }
        }
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.read(|conn| {
            Box::pin(async move {
                crate::conn::fetch_all!(conn, (i64,), crate::sql::PING)
                    .map(drop)
                    .map_err(error::doing("asking whether the database answers"))
            })
        })
        .await
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Runs a transaction in a task of its own, so that no cancelled caller leaves it half-done,
    /// and again when it lost against a concurrent one.
    pub(crate) async fn write<T, F>(&self, doing: &'static str, step: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Tx) -> Step<'a, T> + Send + Sync + 'static,
    {
        let store = self.clone();
        joined(async move {
            let mut attempt = 1;
            loop {
                match store.transact(doing, Mode::Write, &step).await {
                    Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => {
                        tracing::debug!(attempt, error = %error, "a transaction is tried again");
                        let ceiling = Duration::from_millis(5) * 2_u32.pow(attempt);
                        let pause = ceiling.mul_f64(rand::rng().random_range(0.2..1.0));
                        tokio::time::sleep(pause).await;
                        attempt += 1;
                    }
                    done => return done,
                }
            }
        })
        .await
    }

    /// Runs a transaction like [`Self::write`]; a dry run is rolled back and only its answer kept.
    pub(crate) async fn write_unless<T, F>(
        &self,
        dry_run: bool,
        doing: &'static str,
        step: F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Tx) -> Step<'a, T> + Send + Sync + 'static,
    {
        if !dry_run {
            return self.write(doing, step).await;
        }
        let rehearsed = Arc::new(Mutex::new(None));
        let kept = rehearsed.clone();
        let step = Arc::new(step);
        let ended = self
            .write(doing, move |tx| {
                let (kept, step) = (kept.clone(), step.clone());
                Box::pin(async move {
                    let value = step(tx).await?;
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                    // What rolls a transaction back is an error.
                    Err::<(), _>(Error::Rehearsed)
                })
            })
            .await;
        let value = rehearsed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match (ended, value) {
            (Err(Error::Rehearsed), Some(value)) => Ok(value),
            (Err(error), _) => Err(error),
            (Ok(()), _) => Err(Error::Raced("rehearsing")),
        }
    }

    /// Runs reads in one consistent snapshot.
    pub(crate) async fn snapshot<T, F>(&self, step: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a mut Tx) -> Step<'a, T> + Send + Sync + 'static,
    {
        let store = self.clone();
        joined(async move { store.transact("auditing", Mode::Snapshot, &step).await }).await
    }

    /// Runs single reads on a connection, outside of a transaction.
    pub(crate) async fn read<T, F>(&self, step: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Conn) -> Step<'a, T> + Send + 'static,
    {
        let store = self.clone();
        joined(async move {
            let mut conn = store.acquire(Mode::Snapshot).await?;
            if let Ok(done) = tokio::time::timeout(READ_DEADLINE, step(&mut conn)).await {
                return done;
            }
            conn.close();
            store.backend.replace_pool();
            Err(Error::Deadline(READ_DEADLINE))
        })
        .await
    }

    async fn transact<T, F>(&self, doing: &'static str, mode: Mode, step: &F) -> Result<T, Error>
    where
        F: for<'a> Fn(&'a mut Tx) -> Step<'a, T>,
    {
        let conn = self.acquire(mode).await?;
        let now = match self.options.clock {
            Clock::Database => None,
            Clock::Fixed(at) => Some(at),
        };
        // An audit reads everything: no deadline of ours, the operator has one.
        let deadline = if mode == Mode::Snapshot {
            Duration::MAX
        } else {
            WRITE_DEADLINE
        };
        // Dropped at the deadline, `tx` closes its connection instead of returning it.
        let work = async {
            let mut tx = Tx::begin(conn, mode, now).await?;
            match step(&mut tx).await {
                Ok(value) => {
                    let moved = std::mem::take(&mut tx.moved);
                    crash::point_of(doing, "before-commit");
                    tx.commit().await?;
                    crash::point_of(doing, "after-commit");
                    if let Some(listener) =
                        self.options.listener.as_ref().filter(|_| !moved.is_empty())
                    {
                        listener.moved(&moved);
                    }
                    Ok(value)
                }
                Err(error) => {
                    tx.rollback().await;
                    Err(error)
                }
            }
        };
        if let Ok(done) = tokio::time::timeout(deadline, work).await {
            return done;
        }
        self.backend.replace_pool();
        Err(Error::Deadline(deadline))
    }

    async fn acquire(&self, mode: Mode) -> Result<Conn, Error> {
        let waited = async {
            match (&self.backend, mode) {
                (Backend::Postgres(backend), _) => {
                    backend.pool().acquire().await.map(Conn::Postgres)
                }
                (Backend::Sqlite { writer, .. }, Mode::Write) => {
                    writer.acquire().await.map(Conn::Sqlite)
                }
                (Backend::Sqlite { reader, .. }, Mode::Snapshot) => {
                    reader.acquire().await.map(Conn::Sqlite)
                }
            }
        };
        // The pool has a time-out of its own, but stores of different patience may share it.
        let acquired = tokio::time::timeout(self.options.acquire_timeout, waited)
            .await
            .unwrap_or(Err(sqlx::Error::PoolTimedOut));
        if let Err(sqlx::Error::PoolTimedOut) = acquired {
            self.acquire_timeouts.fetch_add(1, Ordering::Relaxed);
        }
        acquired.map_err(error::doing("waiting for a connection"))
    }
}

/// Runs database work to its end even if the caller goes away.
async fn joined<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    #[expect(
        clippy::disallowed_methods,
        reason = "joined here; it ends by its own deadline"
    )]
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels tasks.
            Err(_) => Err(Error::Raced("shutting down")),
        },
    }
}
