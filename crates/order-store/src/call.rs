//! The one way a call gets a connection: in a task of its own, with a deadline, and again where that is safe.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::RngExt as _;

use crate::conn::{Conn, Lent, READ_DEADLINE, SILENCE, WRITE_DEADLINE};
use crate::crash;
use crate::error::{self, Error, WriteRefusal};
use crate::outbox::write as write_outbox;
use crate::sessions::Asked;
use crate::store::{Backend, Clock, Store};
use crate::tx::{Mode, Tx};

/// How often a call is tried again at once when it lost against a concurrent one.
const ATTEMPTS_MAX: u32 = 8;

/// The same after waiting for a lock in vain, which takes 2 s each time: its holder may keep it for long.
const LOCK_ATTEMPTS_MAX: u32 = 2;

/// How often a call is begun again that met a dead connection before it had done anything.
const CONNECTIONS_MAX: u32 = 3;

/// How soon connections may be left again because their database doesn't write: another one may not exist yet.
const LEAVE_PAUSE: Duration = Duration::from_secs(1);

/// What a call does with its connection or transaction: an `async fn(&mut Tx, &Args) -> Result<_, _>`.
///
/// It only borrows its arguments, since it runs again after a lost race. It is a trait because the future borrows from
/// both and has to be `Send`, which no bound on `AsyncFn` can say; for the same reason the calls below name their futures
/// instead of being `async`.
pub(crate) trait Work<'a, C: 'a, A: 'a, T, E>:
    Fn(&'a mut C, &'a A) -> Self::Future + Send + Sync + 'static
{
    type Future: Future<Output = Result<T, E>> + Send + 'a;
}

impl<'a, C: 'a, A: 'a, T, E, W, F> Work<'a, C, A, T, E> for W
where
    W: Fn(&'a mut C, &'a A) -> F + Send + Sync + 'static,
    F: Future<Output = Result<T, E>> + Send + 'a,
{
    type Future = F;
}

/// What a call needs besides its connection.
pub(crate) trait Args: Send + Sync + 'static {}

impl<A: Send + Sync + 'static> Args for A {}

impl Store {
    /// Runs a transaction in a task of its own, so that a cancelled caller doesn't leave it half-done, and again when it
    /// lost against a concurrent one. `doing` is what an operator reads in errors.
    pub(crate) fn write<A: Args, T: Send + 'static, W: for<'a> Work<'a, Tx, A, T, Error>>(
        &self,
        doing: &'static str,
        args: A,
        work: W,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<A, T, W> {
        self.repeat(doing, Mode::Write, args, work)
    }

    /// Runs a transaction like [`Self::write`]; a dry run is rolled back, and only its answer is kept.
    pub(crate) fn write_unless<A: Args, T: Send + 'static, W: for<'a> Work<'a, Tx, A, T, Error>>(
        &self,
        dry_run: bool,
        doing: &'static str,
        args: A,
        work: W,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<A, T, W> {
        let mode = if dry_run { Mode::DryRun } else { Mode::Write };
        self.repeat(doing, mode, args, work)
    }

    /// Runs reads in one consistent snapshot.
    pub(crate) fn snapshot<A: Args, T: Send + 'static, W: for<'a> Work<'a, Tx, A, T, Error>>(
        &self,
        doing: &'static str,
        args: A,
        work: W,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<A, T, W> {
        self.repeat(doing, Mode::Snapshot, args, work)
    }

    fn repeat<A: Args, T: Send + 'static, W: for<'a> Work<'a, Tx, A, T, Error>>(
        &self,
        doing: &'static str,
        mode: Mode,
        args: A,
        work: W,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<A, T, W> {
        let store = self.clone();
        joined(async move {
            let mut attempt = 1;
            loop {
                match store.transact(doing, mode, &args, &work).await {
                    Err(error) if error.is_conflict() && attempt < attempts_max(&error) => {
                        tracing::debug!(attempt, error = %error, "transaction repeated after a conflict");
                        let ceiling = Duration::from_millis(5) * 2_u32.pow(attempt);
                        let pause = ceiling.mul_f64(rand::rng().random_range(0.2..1.0));
                        tokio::time::sleep(pause).await;
                        attempt += 1;
                    }
                    done => return done,
                }
            }
        })
    }

    /// Runs single reads on a connection, outside of a transaction; all of them again if the connection turns out to be
    /// dead.
    pub(crate) fn read<A: Args, T: Send + 'static, W: for<'a> Work<'a, Conn, A, T, sqlx::Error>>(
        &self,
        doing: &'static str,
        args: A,
        work: W,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<A, T, W> {
        let store = self.clone();
        joined(async move {
            let asked = Asked::default();
            let mut attempt = 1;
            loop {
                let mut lent = Lent::new(store.acquire(Mode::Snapshot, &asked).await?);
                let read = tokio::time::timeout(READ_DEADLINE, work(lent.conn(), &args));
                let Ok(done) = read.await else {
                    return Err(store.too_late(READ_DEADLINE, &asked));
                };
                let error = match done.map_err(error::doing(doing)) {
                    Ok(value) => {
                        lent.give_back();
                        return Ok(value);
                    }
                    Err(error) => error,
                };
                store.learn(&error, &asked);
                if error.is_answered() {
                    lent.give_back();
                }
                if !(error.is_lost() || error.is_stale()) || attempt == CONNECTIONS_MAX {
                    return Err(error);
                }
                attempt += 1;
            }
        })
    }

    async fn transact<A, T, W>(
        &self,
        doing: &'static str,
        mode: Mode,
        args: &A,
        work: &W,
    ) -> Result<T, Error>
    where
        W: for<'a> Work<'a, Tx, A, T, Error>,
    {
        // An audit reads everything: the operator gives it its deadline.
        let deadline = if mode == Mode::Snapshot {
            Duration::MAX
        } else {
            WRITE_DEADLINE
        };
        let asked = Asked::default();
        // Dropped at the deadline, `tx` closes its connection instead of returning it.
        let transaction = async {
            let mut tx = self.begin(mode, &asked).await?;
            let done = match work(&mut tx, args).await {
                // Last, under the locks of its orders: so the rows of an order come in the order of its versions.
                Ok(value) => write_outbox(&mut tx).await.map(|()| value),
                Err(error) => Err(error),
            };
            match done {
                Ok(value) if mode == Mode::DryRun => {
                    tx.rollback().await;
                    Ok(value)
                }
                Ok(value) => {
                    self.commit(tx, doing, mode).await?;
                    Ok(value)
                }
                Err(error) => {
                    if error.is_answered() {
                        tx.rollback().await;
                    }
                    Err(error)
                }
            }
        };
        let Ok(done) = tokio::time::timeout(deadline, transaction).await else {
            return Err(self.too_late(deadline, &asked));
        };
        done.inspect_err(|error| self.learn(error, &asked))
    }

    async fn commit(&self, mut tx: Tx, doing: &'static str, mode: Mode) -> Result<(), Error> {
        let moved = std::mem::take(&mut tx.moved);
        crash::point_of(doing, "before-commit");
        tx.commit().await?;
        crash::point_of(doing, "after-commit");
        self.kept(mode)?;
        if !moved.is_empty() {
            self.writes.moved();
            if let Some(listener) = &self.options.listener {
                listener.moved(&moved);
            }
        }
        Ok(())
    }

    /// Opens a transaction. A pooled connection may be dead: as long as nothing but BEGIN was sent, another one is taken.
    async fn begin(&self, mode: Mode, asked: &Asked) -> Result<Tx, Error> {
        let now = match self.options.clock {
            Clock::Database => None,
            Clock::Fixed(at) => Some(at),
        };
        let mut attempt = 1;
        loop {
            let conn = self.acquire(mode, asked).await?;
            match Tx::begin(conn, mode, now, self.unreadable.clone()).await {
                Err(error) if error.is_lost() && attempt < CONNECTIONS_MAX => {
                    tracing::debug!(attempt, error = %error, "dead connection replaced");
                    self.learn(&error, asked);
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    async fn acquire(&self, mode: Mode, asked: &Asked) -> Result<Conn, Error> {
        let patience = self.options.acquire_timeout;
        let acquired = match (self.backend(), mode) {
            (Backend::Postgres(sessions), _) => sessions
                .acquire(patience, asked.clone())
                .await
                .map(Conn::Postgres),
            (
                Backend::Sqlite {
                    writer: pool, file, ..
                },
                Mode::Write | Mode::DryRun,
            )
            | (
                Backend::Sqlite {
                    reader: pool, file, ..
                },
                Mode::Snapshot,
            ) => {
                file.check_path()?;
                // The pool has a time-out of its own, but stores of different patience may share it.
                tokio::time::timeout(patience, pool.acquire())
                    .await
                    .unwrap_or(Err(sqlx::Error::PoolTimedOut))
                    .map(Conn::Sqlite)
            }
        };
        if let Err(sqlx::Error::PoolTimedOut) = acquired {
            self.acquire_timeouts.fetch_add(1, Ordering::Relaxed);
        }
        acquired.map_err(error::doing("waiting for a connection"))
    }

    /// Whether what was just committed is where the next process will look for it.
    fn kept(&self, mode: Mode) -> Result<(), Error> {
        match (self.backend(), mode) {
            (Backend::Sqlite { file, .. }, Mode::Write) => Ok(file.check_all()?),
            _ => Ok(()),
        }
    }

    /// Draws conclusions from an error about the other connections, and about writing in general.
    fn learn(&self, error: &Error, asked: &Asked) {
        let refusal = error.write_refusal();
        if let Some(refusal) = refusal {
            self.writes.refused(refusal);
        }
        let Some(epoch) = asked.epoch() else { return };
        if error.is_lost() {
            self.leave(epoch, Duration::ZERO, "a connection was lost");
        } else if error.is_stale() {
            self.leave(epoch, LEAVE_PAUSE, "a prepared statement is outdated");
        } else if refusal == Some(WriteRefusal::ReadOnly) {
            self.leave(epoch, LEAVE_PAUSE, "the database is read-only");
        } else if error.is_elsewhere() {
            self.leave(epoch, LEAVE_PAUSE, "a table is missing");
        }
    }

    /// The schema isn't the expected one: the sessions may look at another one than those that are opened now.
    pub(crate) fn doubt_sessions(&self) {
        if let Backend::Postgres(sessions) = self.backend() {
            let epoch = sessions.epoch().current();
            self.leave(epoch, LEAVE_PAUSE, "the schema is another one");
        }
    }

    /// The error of a call that took too long. If the server was silent, its other connections lead to the same silence,
    /// and each would cost a deadline of its own.
    fn too_late(&self, deadline: Duration, asked: &Asked) -> Error {
        if let Some(epoch) = asked.silent_for(SILENCE) {
            self.leave(epoch, Duration::ZERO, "the database did not answer in time");
        }
        Error::Deadline(deadline)
    }

    /// Leaves all connections of an epoch, those of other pools too: the next ones are opened to wherever the address
    /// leads by then.
    fn leave(&self, epoch: u64, pause: Duration, reason: &'static str) {
        if let Backend::Postgres(sessions) = self.backend()
            && sessions.epoch().leave(epoch, pause)
        {
            tracing::warn!(reason, "database connections replaced");
        }
    }
}

fn attempts_max(error: &Error) -> u32 {
    if error.is_lock_timeout() {
        LOCK_ATTEMPTS_MAX
    } else {
        ATTEMPTS_MAX
    }
}

/// Runs database work to its end even if the caller goes away. A panic in it is an error: whatever it held is closed.
pub(crate) async fn joined<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    #[expect(
        clippy::disallowed_methods,
        reason = "joined here; it ends by its own deadline"
    )]
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => Err(Error::Panicked(message_of(panic.as_ref()))),
            // Only a runtime that is shutting down cancels tasks.
            Err(_) => Err(Error::Raced("shutting down")),
        },
    }
}

/// The message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}
