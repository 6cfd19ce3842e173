//! Idempotency keys: which holder carries out a request, and the answer that was kept.
//!
//! Two short transactions around a request that has its own: the claim, and the answer. If the
//! process dies between the request's commit and its answer, the next holder carries it out
//! again, so every command has to be repeatable.

use std::time::Duration;

use crate::error::{Error, doing};
use crate::leases;
use crate::rows::from_row;
use crate::run::{execute, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::{KnownTs, Ts};
use crate::tx::Tx;

/// How long a key is remembered.
pub const KEYS_KEPT: Duration = Duration::from_hours(24);

/// A request under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The actor, whose keys are apart from those of others.
    pub actor: String,
    /// The key.
    pub key: String,
    /// The digest of the request.
    pub digest: String,
    /// The holder that carries it out: a unique id.
    pub holder: String,
}

/// What is kept of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Its status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// All of it.
    pub body: Vec<u8>,
}

/// The outcome of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// The request is to be carried out.
    Held,
    /// It was carried out before.
    Answered(KeptAnswer),
    /// Another holder is carrying it out.
    InUse,
    /// The key belongs to another request.
    OtherRequest,
}

impl Store {
    /// Claims a key for `hold` if it is free. A holder that keeps it for longer is considered dead.
    pub async fn claim_key(
        &self,
        request: KeyedRequest,
        hold: Duration,
    ) -> Result<KeyClaim, Error> {
        self.write("claiming", (request, hold), claim).await
    }

    /// Keeps the answer of a request that is still its holder's; returns whether it was.
    pub async fn keep_answer(
        &self,
        request: KeyedRequest,
        answer: KeptAnswer,
    ) -> Result<bool, Error> {
        self.write("answering", (request, answer), keep).await
    }

    /// Lets the same request be tried again at once.
    pub async fn release_key(&self, request: KeyedRequest) -> Result<(), Error> {
        self.write("releasing", request, release).await
    }
}

async fn keep(tx: &mut Tx, (request, answer): &(KeyedRequest, KeptAnswer)) -> Result<bool, Error> {
    let kept = execute!(
        tx.conn(),
        sql::idempotency_keys::ANSWER,
        request.actor.as_str(),
        request.key.as_str(),
        request.holder.as_str(),
        i64::from(answer.status),
        serde_json::json!(answer.headers).to_string(),
        answer.body.as_slice(),
    );
    kept.map(|rows| rows == 1)
        .map_err(doing("keeping an answer"))
}

async fn release(tx: &mut Tx, request: &KeyedRequest) -> Result<(), Error> {
    execute!(
        tx.conn(),
        sql::idempotency_keys::RELEASE,
        request.actor.as_str(),
        request.key.as_str(),
        request.holder.as_str(),
    )
    .map(drop)
    .map_err(doing("releasing a key"))
}

async fn claim(tx: &mut Tx, (request, hold): &(KeyedRequest, Duration)) -> Result<KeyClaim, Error> {
    let now = tx.now();
    let until = now.plus(*hold);
    let inserted = execute!(
        tx.conn(),
        sql::idempotency_keys::INSERT,
        request.actor.as_str(),
        request.key.as_str(),
        request.digest.as_str(),
        request.holder.as_str(),
        until,
        now,
    );
    if inserted.map_err(doing("claiming a key"))? == 1 {
        return Ok(KeyClaim::Held);
    }
    let found = fetch_all!(
        tx.conn(),
        KeyRow,
        sql::idempotency_keys::LOCK,
        request.actor.as_str(),
        request.key.as_str(),
    );
    let found = found.map_err(doing("reading a key"))?.pop();
    // It was there when ours was inserted; only the purge takes keys away.
    let row = found.ok_or(Error::Raced("reading a key"))?;
    let is_old = row.created_at.plus(KEYS_KEPT) <= now;
    if !is_old {
        if row.request != request.digest {
            return Ok(KeyClaim::OtherRequest);
        }
        let KnownTs(held_until) = row.held_until;
        if let Some(answer) = row.into_answer(request)? {
            return Ok(KeyClaim::Answered(answer));
        }
        // A time that isn't known lies further away than any request holds a key.
        let is_possible = held_until.is_some_and(|until| until <= leases::too_far(tx, *hold));
        if !is_possible {
            tracing::warn!(
                key = request.key,
                "idempotency key taken over: it was held for longer than is possible, as when the database's clock is set back"
            );
        } else if held_until > Some(now) {
            return Ok(KeyClaim::InUse);
        }
    }
    take(tx, request, until).await?;
    Ok(KeyClaim::Held)
}

async fn take(tx: &mut Tx, request: &KeyedRequest, until: Ts) -> Result<(), Error> {
    let now = tx.now();
    let taken = execute!(
        tx.conn(),
        sql::idempotency_keys::TAKE,
        request.actor.as_str(),
        request.key.as_str(),
        request.digest.as_str(),
        request.holder.as_str(),
        until,
        now,
    );
    if taken.map_err(doing("taking a key over"))? == 1 {
        Ok(())
    } else {
        Err(Error::Raced("taking a locked key over"))
    }
}

from_row! {
    struct KeyRow {
        request: String,
        held_until: KnownTs,
        created_at: Ts,
        status: Option<i64>,
        headers: Option<String>,
        body: Option<Vec<u8>>,
    }
}

impl KeyRow {
    fn into_answer(self, request: &KeyedRequest) -> Result<Option<KeptAnswer>, Error> {
        let (Some(status), Some(headers), Some(body)) = (self.status, self.headers, self.body)
        else {
            return Ok(None);
        };
        let at = crate::rows::Row {
            table: "idempotency_keys",
            id: &request.key,
        };
        Ok(Some(KeptAnswer {
            status: at.column("status", u16::try_from(status))?,
            headers: at.column("headers", serde_json::from_str(&headers))?,
            body,
        }))
    }
}
