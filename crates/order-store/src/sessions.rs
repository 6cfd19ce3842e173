//! The pool of PostgreSQL connections.
//!
//! sqlx's own pool doesn't say whether a connection was used before, can't leave a server that is no longer the right
//! one, spends a round trip on every connection that comes back, and has no place for what a connection must remember.
//! SQLite keeps sqlx's pool: a file has none of these problems.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::error;
use crate::sql;
use crate::starved::Starved;

/// A connection that was idle for longer is closed.
const IDLE_MAX: Duration = Duration::from_mins(10);

/// A connection that is older isn't used again: servers collect memory per connection, and addresses change.
const AGE_MAX: Duration = Duration::from_mins(30);

/// A connection that was idle for longer is pinged before it is used: a firewall in between may have forgotten it.
const DOUBT_AFTER: Duration = Duration::from_secs(30);

/// How long its answer may take.
const DOUBT_PATIENCE: Duration = Duration::from_secs(2);

/// The pauses between attempts to connect, while the server is away or has no room.
const CONNECT_PAUSE_MIN: Duration = Duration::from_millis(10);
const CONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long an orderly end of a connection may take.
const GOODBYE: Duration = Duration::from_millis(200);

/// A pool of sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    connect: PgConnectOptions,
    max: u32,
    epoch: Arc<Epoch>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    /// Whether the last call got no connection, because none could be opened.
    starved: Mutex<Option<Starved>>,
    pub(crate) doubt_after: Duration,
}

/// Which connections are still good: those opened since all were left for the last time. Shared by all pools of a
/// database, since what is wrong with one connection's server is wrong with its siblings in every pool.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    number: AtomicU64,
    left_at: Mutex<Option<Instant>>,
}

/// An idle connection.
#[derive(Debug)]
struct Idle {
    raw: Raw,
    since: Instant,
}

#[derive(Debug)]
struct Raw {
    conn: PgConnection,
    /// The mark that its server session got at its beginning, and returns with every BEGIN: a pooler that
    /// changes the session in between is found out before any statement is sent.
    mark: String,
    opened: Instant,
    epoch: u64,
}

/// A connection in use. It is closed when it is dropped, unless it was given back.
#[derive(Debug)]
pub(crate) struct Session {
    /// `None` only while it is being dropped.
    raw: Option<Raw>,
    asked: Asked,
    pool: Arc<Sessions>,
    /// Given back after the connection is closed or idle.
    _permit: OwnedSemaphorePermit,
}

/// When a call last asked its server for something, and over a connection of which epoch: what is left of the call when
/// its deadline passes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Option<(u64, Instant)>>>);

impl Epoch {
    /// Leaves all connections that were opened in `epoch` or before; the pools open others when they need them. Only
    /// the first of several that meet the same fault does so, and none sooner than `pause` after the last time.
    pub(crate) fn leave(&self, epoch: u64, pause: Duration) -> bool {
        let mut left_at = self.left_at.lock().unwrap_or_else(PoisonError::into_inner);
        let too_soon = left_at.is_some_and(|at| at.elapsed() < pause);
        if too_soon || self.current() != epoch {
            return false;
        }
        *left_at = Some(Instant::now());
        self.number.store(epoch + 1, Ordering::Release);
        true
    }

    pub(crate) fn current(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

impl Asked {
    fn note(&self, epoch: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((epoch, Instant::now()));
    }

    /// The epoch of the connection that was used last.
    pub(crate) fn epoch(&self) -> Option<u64> {
        let asked = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.map(|(epoch, _)| epoch)
    }

    /// The epoch of a connection over which nothing was asked for at least `bound`: its server is silent.
    pub(crate) fn silent_for(&self, bound: Duration) -> Option<u64> {
        let asked = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (epoch, at) = asked?;
        (at.elapsed() >= bound).then_some(epoch)
    }
}

impl Sessions {
    pub(crate) fn new(connect: PgConnectOptions, max: u32, epoch: Arc<Epoch>) -> Arc<Self> {
        Arc::new(Self {
            connect,
            max,
            epoch,
            permits: Arc::new(Semaphore::new(max as usize)),
            idle: Mutex::default(),
            starved: Mutex::default(),
            doubt_after: DOUBT_AFTER,
        })
    }

    /// Another pool for the same database.
    pub(crate) fn beside(&self, max: u32) -> Arc<Self> {
        Self::new(self.connect.clone(), max, self.epoch.clone())
    }

    pub(crate) fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// A connection outside of the pool and without its limits, for what may take long.
    pub(crate) async fn connect_apart(&self) -> Result<PgConnection, sqlx::Error> {
        let mut conn = self.connect.connect().await?;
        sqlx::raw_sql(sql::session::UNLIMITED)
            .execute(&mut conn)
            .await?;
        Ok(conn)
    }

    /// An idle connection, or a new one. Waits for `patience` at most, also for a server that is starting or full.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        patience: Duration,
        asked: Asked,
    ) -> Result<Session, sqlx::Error> {
        let deadline = Instant::now() + patience;
        let permit = tokio::time::timeout_at(deadline, self.permits.clone().acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let raw = match self.pop_alive().await {
            Some(raw) => Ok(raw),
            None => self.open(deadline).await,
        };
        self.set_starved(raw.as_ref().err().map(Starved::because_of));
        let raw = raw?;
        Ok(Session {
            raw: Some(raw),
            asked,
            pool: self.clone(),
            _permit: permit,
        })
    }

    /// Why the last call got no connection, if it got none because none could be opened. Waiting in vain for connections
    /// that are all at work is another matter: then work gets done.
    pub(crate) fn starved(&self) -> Option<Starved> {
        *self.starved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_starved(&self, starved: Option<Starved>) {
        *self.starved.lock().unwrap_or_else(PoisonError::into_inner) = starved;
    }

    /// Closes idle connections that are too old, or of a server that was left. Those at work end with their calls.
    pub(crate) fn trim(&self) {
        let mut kept = self.idle();
        kept.retain(|idle| self.is_good(&idle.raw) && idle.since.elapsed() < IDLE_MAX);
    }

    /// Opens no more connections and closes those that come back.
    pub(crate) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        for Idle { raw, .. } in idle {
            // A server that doesn't listen any more closes it by itself.
            let _ = tokio::time::timeout(GOODBYE, raw.conn.close()).await;
        }
    }

    /// How many connections work, wait, and may be open.
    pub(crate) fn counts(&self) -> (u32, u32, u32) {
        let free = u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX);
        let idle = u32::try_from(self.idle().len()).unwrap_or(u32::MAX);
        (self.max.saturating_sub(free), idle, self.max)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection that is there, as far as one can know without asking at every use.
    async fn pop_alive(&self) -> Option<Raw> {
        let Idle { mut raw, since } = self.pop()?;
        if since.elapsed() < self.doubt_after {
            return Some(raw);
        }
        let pinged = tokio::time::timeout(DOUBT_PATIENCE, raw.conn.ping()).await;
        if matches!(pinged, Ok(Ok(()))) {
            return Some(raw);
        }
        // The others were not used for even longer.
        self.epoch.leave(raw.epoch, Duration::ZERO);
        None
    }

    /// The connection that was used last: its caches are warm, and the others may grow old.
    fn pop(&self) -> Option<Idle> {
        let mut idle = self.idle();
        while let Some(found) = idle.pop() {
            if self.is_good(&found.raw) && found.since.elapsed() < IDLE_MAX {
                return Some(found);
            }
        }
        None
    }

    fn is_good(&self, raw: &Raw) -> bool {
        raw.epoch == self.epoch.current() && raw.opened.elapsed() < AGE_MAX
    }

    async fn open(&self, deadline: Instant) -> Result<Raw, sqlx::Error> {
        let mut pause = CONNECT_PAUSE_MIN;
        // Not the pool's time-out: there is room for a connection.
        let silent = std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            "the server did not answer in time",
        );
        let mut last = sqlx::Error::Io(silent);
        loop {
            match tokio::time::timeout_at(deadline, self.open_once()).await {
                Ok(Ok(raw)) => return Ok(raw),
                Ok(Err(error)) if error::is_away(&error) => last = error,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last),
            }
            if Instant::now() + pause >= deadline {
                return Err(last);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(CONNECT_PAUSE_MAX);
        }
    }

    async fn open_once(&self) -> Result<Raw, sqlx::Error> {
        // Before the connection: one that is opened while all are left belongs to those.
        let epoch = self.epoch.current();
        let mut conn = self.connect.connect().await?;
        let answered = sqlx::raw_sql(sql::session::BEGIN)
            .fetch_all(&mut conn)
            .await?;
        let mark = answered
            .last()
            .ok_or(sqlx::Error::RowNotFound)?
            .try_get(0)?;
        Ok(Raw {
            conn,
            mark,
            opened: Instant::now(),
            epoch,
        })
    }
}

impl Session {
    /// Back into the pool: what was asked is answered, and no transaction is open.
    pub(crate) fn give_back(mut self) {
        let Some(raw) = self.raw.take() else { return };
        if self.pool.is_good(&raw) && !self.pool.permits.is_closed() {
            let since = Instant::now();
            self.pool.idle().push(Idle { raw, since });
        }
    }

    /// Whether the server session is the one that this connection began with.
    pub(crate) fn is_marked(&self, mark: &str) -> bool {
        self.raw().mark == mark
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.raw().epoch
    }

    fn raw(&self) -> &Raw {
        self.raw
            .as_ref()
            .expect("a session holds its connection until it is dropped")
    }
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.raw().conn
    }
}

/// The caller that takes the connection pings it first.
impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        let epoch = self.epoch();
        self.asked.note(epoch);
        let raw = self.raw.as_mut();
        &mut raw
            .expect("a session holds its connection until it is dropped")
            .conn
    }
}
