//! Idempotency keys: who runs a request, and what it was answered.
//!
//! Two short transactions around a request that has its own: the claim, and the answer. If the
//! process dies between the request's commit and its answer, the next holder carries it out
//! again, which is why every command must bear that.

use std::time::Duration;

use crate::conn::{Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::sql::idempotency as sql;
use crate::store::Store;
use crate::ts::Ts;

/// How long a key is remembered.
pub const KEYS_KEPT: Duration = Duration::from_hours(24);

/// A request under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// Whose key it is.
    pub actor: String,
    /// The key.
    pub key: String,
    /// The digest of the request.
    pub digest: String,
    /// Who carries it out: an id that nobody else has.
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

/// What came of asking for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// The request is to be carried out.
    Held,
    /// It was carried out before.
    Answered(KeptAnswer),
    /// Somebody is carrying it out.
    InUse,
    /// The key belongs to another request.
    OtherRequest,
}

impl Store {
    /// Asks for a key, and holds it for `hold` if it is free. Whoever held it longer is taken for
    /// dead.
    pub async fn claim_key(
        &self,
        request: KeyedRequest,
        hold: Duration,
    ) -> Result<KeyClaim, Error> {
        self.write("claiming", move |tx| {
            let request = request.clone();
            Box::pin(async move { claim(tx, &request, hold).await })
        })
        .await
    }

    /// Keeps the answer of a request that is still its holder's; returns whether it was.
    pub async fn keep_answer(
        &self,
        request: KeyedRequest,
        answer: KeptAnswer,
    ) -> Result<bool, Error> {
        self.write("answering", move |tx| {
            let (request, answer) = (request.clone(), answer.clone());
            Box::pin(async move {
                let kept = execute!(
                    tx.conn(),
                    sql::KEY_ANSWER,
                    request.actor.as_str(),
                    request.key.as_str(),
                    request.holder.as_str(),
                    i64::from(answer.status),
                    serde_json::json!(answer.headers).to_string(),
                    answer.body.as_slice(),
                );
                kept.map(|rows| rows == 1)
                    .map_err(doing("keeping an answer"))
            })
        })
        .await
    }

    /// Lets the same request be tried again at once.
    pub async fn release_key(&self, request: KeyedRequest) -> Result<(), Error> {
        self.write("releasing", move |tx| {
            let request = request.clone();
            Box::pin(async move {
                execute!(
                    tx.conn(),
                    sql::KEY_RELEASE,
                    request.actor.as_str(),
                    request.key.as_str(),
                    request.holder.as_str(),
                )
                .map(drop)
                .map_err(doing("releasing a key"))
            })
        })
        .await
    }
}

async fn claim(tx: &mut Tx, request: &KeyedRequest, hold: Duration) -> Result<KeyClaim, Error> {
    let now = tx.now();
    let until = Ts(now.0 + hold);
    let inserted = execute!(
        tx.conn(),
        sql::KEY_INSERT,
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
        sql::KEY_LOCK,
        request.actor.as_str(),
        request.key.as_str(),
    );
    let found = found.map_err(doing("reading a key"))?.pop();
    // It was there when ours was inserted; only the purge takes keys away.
    let row = found.ok_or(Error::Raced("reading a key"))?;
    let is_old = row.created_at.0 + KEYS_KEPT <= now.0;
    if !is_old {
        if row.request != request.digest {
            return Ok(KeyClaim::OtherRequest);
        }
        let held_until = row.held_until;
        if let Some(answer) = row.into_answer(request)? {
            return Ok(KeyClaim::Answered(answer));
        }
        if held_until > now {
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
        sql::KEY_TAKE,
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

#[derive(sqlx::FromRow)]
struct KeyRow {
    request: String,
    held_until: Ts,
    created_at: Ts,
    status: Option<i64>,
    headers: Option<String>,
    body: Option<Vec<u8>>,
}

impl KeyRow {
    fn into_answer(self, request: &KeyedRequest) -> Result<Option<KeptAnswer>, Error> {
        let (Some(status), Some(headers), Some(body)) = (self.status, self.headers, self.body)
        else {
            return Ok(None);
        };
        let at = crate::orders::Row {
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
