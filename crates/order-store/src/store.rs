//! A database with the rules of the contract, and how it is opened.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::postgres::PgConnectOptions;
use time::OffsetDateTime;

use crate::gets::Gets;
use crate::moved::Listener;
use crate::open_file::OpenFile;
use crate::sessions::Sessions;
use crate::unreadable::UnreadableRows;
use crate::writes::Writes;

/// Where the data is.
#[derive(Clone)]
pub struct DatabaseUrl(Url);

#[derive(Clone)]
enum Url {
    Postgres(Box<PgConnectOptions>),
    Sqlite(PathBuf),
}

/// Not the URL of a database that this service supports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be sqlite://<file> or postgres://<user>@<host>/<database>")]
pub struct InvalidUrl;

impl FromStr for DatabaseUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(text).map_err(|_| InvalidUrl)?;
            // No column is a float, and poolers refuse the parameter that sqlx sends for their sake.
            let options = options.application_name("orderd").extra_float_digits(None);
            let options = Box::new(options);
            return Ok(Self(Url::Postgres(options)));
        }
        let path = text
            .strip_prefix("sqlite://")
            .or_else(|| text.strip_prefix("sqlite:"));
        // `mode=rwc` is how this service opens its file anyway; it sets all other options itself.
        let path = path.map(|path| path.strip_suffix("?mode=rwc").unwrap_or(path));
        // A name that ends in a space is another file, which would be created empty.
        let path = path.filter(|path| path.trim() == *path && !path.contains(char::is_control));
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

/// The clock whose time is compared and written.
#[derive(Debug, Clone, Copy, Default)]
pub enum Clock {
    /// The database's clock: one for all instances.
    #[default]
    Database,
    /// A fixed time, for tests.
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
    /// The most connections; SQLite always has one writer.
    pub connections_max: u32,
    /// How long a call waits for a connection.
    pub acquire_timeout: Duration,
    /// The clock.
    pub clock: Clock,
    /// Pay unambiguous orders without judging them under a lock first. All is correct without.
    pub fast_advance: bool,
    /// What is notified of committed steps.
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
    pub(crate) backend: Backend,
    pub(crate) options: Arc<StoreOptions>,
    pub(crate) acquire_timeouts: Arc<AtomicU64>,
    pub(crate) unreadable: Arc<UnreadableRows>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) gets: Gets,
}

#[derive(Debug, Clone)]
pub(crate) enum Backend {
    Postgres(Arc<Sessions>),
    Sqlite {
        writer: SqlitePool,
        reader: SqlitePool,
        file: Arc<OpenFile>,
    },
}

impl Store {
    /// Prepares the pools; connections are opened when they are needed.
    pub fn open(url: &DatabaseUrl, options: StoreOptions) -> Self {
        let backend = match &url.0 {
            Url::Postgres(connect) => Backend::postgres((**connect).clone(), &options),
            Url::Sqlite(path) => Backend::sqlite(path, &options),
        };
        Self {
            backend,
            options: Arc::new(options),
            acquire_timeouts: Arc::default(),
            unreadable: Arc::default(),
            writes: Arc::default(),
            gets: Gets::default(),
        }
    }

    /// The same database with other options; SQLite keeps its one writer.
    #[must_use]
    pub fn with_options(&self, change: impl FnOnce(&mut StoreOptions)) -> Self {
        let mut options = (*self.options).clone();
        change(&mut options);
        Self {
            options: Arc::new(options),
            gets: Gets::default(),
            ..self.clone()
        }
    }

    /// Closes the pools: nothing more is begun. Connections in use are closed with their calls; those of SQLite are waited
    /// for.
    pub async fn close(&self) {
        match &self.backend {
            Backend::Postgres(sessions) => sessions.close().await,
            Backend::Sqlite { writer, reader, .. } => {
                reader.close().await;
                writer.close().await;
            }
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }
}
