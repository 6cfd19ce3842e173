//! Whether the database can be read and written, for readiness.
//!
//! An answer isn't enough: a standby, a demoted primary and a full disk answer. Orders that move
//! prove it; while no order moves, a row is written every few seconds.

use std::time::Duration;

use order_store::{Error, FileMoved, Store};
use tokio::time::Instant;

/// How long a successful write counts.
const PROVEN: Duration = Duration::from_secs(5);

/// How soon a write is tried again while the database refuses writes.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How long a table may be locked as a whole. A statement waits 2 s for a lock, so calls fail from then on; shorter
/// locks are usual, for example at the end of a VACUUM.
const LOCKED: Duration = Duration::from_secs(2);

/// What is known about writes to the database.
#[derive(Debug, Default)]
pub(super) struct Writing {
    moves: u64,
    tried: Option<(Instant, Result<(), String>)>,
    locked_since: Option<Instant>,
}

impl Writing {
    /// Checks the schema and whether the database accepts writes; if not, returns the reason for the
    /// operator.
    ///
    /// # Errors
    /// If waiting won't help: another file is at the path of the service's own.
    pub(super) async fn check(&mut self, store: &Store) -> Result<Result<(), String>, Error> {
        if let Err(error) = store.check_schema().await {
            return sentence(error).map(Err);
        }
        let moves = store.moves();
        if moves != self.moves {
            self.moves = moves;
            self.tried = Some((Instant::now(), Ok(())));
        }
        let tried = match &self.tried {
            Some((at, Ok(()))) if at.elapsed() < PROVEN => Ok(()),
            Some((at, Err(why))) if at.elapsed() < TRY_AGAIN => Err(why.clone()),
            _ => {
                let tried = match store.try_to_write().await {
                    Ok(()) => Ok(()),
                    Err(error) => Err(sentence(error)?),
                };
                self.tried = Some((Instant::now(), tried.clone()));
                tried
            }
        };
        // A small write may succeed although a larger one was refused.
        let refused = store.write_refusal();
        let tried = tried.and_then(|()| refused.map_or(Ok(()), |refusal| Err(refusal.to_string())));
        // Orders may move while other work waits for a lock: every table counts.
        let locked = match store.locked_tables().await {
            Ok(tables) => self.locked(&tables),
            Err(error) => Err(sentence(error)?),
        };
        Ok(tried.and(locked))
    }

    fn locked(&mut self, tables: &[String]) -> Result<(), String> {
        if tables.is_empty() {
            self.locked_since = None;
            return Ok(());
        }
        let since = *self.locked_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LOCKED {
            return Ok(());
        }
        let tables = tables.join(", ");
        Err(format!(
            "another session has locked {tables}, and what writes there fails"
        ))
    }
}

/// One sentence for `/readyz`, which needs no token: without address, path, or text from the
/// database.
fn sentence(error: Error) -> Result<String, Error> {
    match error {
        Error::FileMoved(FileMoved::Replaced { .. } | FileMoved::LockLost { .. }) => Err(error),
        Error::FileMoved(FileMoved::Gone { .. }) => {
            Ok("the database file is gone: nothing is recorded until it is back".to_owned())
        }
        Error::SchemaTooOld { .. } | Error::SessionChanged | Error::NotPermitted(_) => {
            Ok(error.to_string())
        }
        other => Ok(other.write_refusal().map_or_else(
            || "the database doesn't answer".to_owned(),
            |refusal| refusal.to_string(),
        )),
    }
}
