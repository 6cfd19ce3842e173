//! Messages that nobody understood, kept byte for byte, until a person replays or discards them.

use std::fmt;
use std::str::FromStr;

use order_fsm::Verdict;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::conn::{Conn, Sql, Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::exceptions::{digest, hex};
use crate::orders::Row;
use crate::record::{Batch, PaymentFact, record};
use crate::sql::ops;
use crate::store::{Store, StoreOptions};
use crate::ts::Ts;
use crate::{payments, sql};

/// A message to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// The stream it came from.
    pub stream: String,
    /// Its subject.
    pub subject: String,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// Its headers as a JSON object.
    pub headers: String,
    /// Its body, or the first part of it.
    pub body: Vec<u8>,
    /// Why it wasn't understood: a name of the contract.
    pub reason: &'static str,
    /// Which field and why.
    pub detail: String,
}

impl NewDeadLetter {
    /// The digest of what makes it unique: the same message again is the same letter.
    pub fn id(&self) -> String {
        let sequence = self.sequence.to_string();
        let body = hex(&Sha256::digest(&self.body));
        digest(&[&self.stream, &sequence, &body])
    }
}

/// A kept message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The digest of what makes it unique.
    pub id: String,
    /// The stream it came from.
    pub stream: String,
    /// Its subject.
    pub subject: String,
    /// Its sequence in the stream.
    pub sequence: i64,
    /// Its headers as a JSON object.
    pub headers: String,
    /// Its body, or the first part of it.
    pub body: Vec<u8>,
    /// Why it wasn't understood.
    pub reason: String,
    /// Which field and why.
    pub detail: String,
    /// When it was kept.
    pub received_at: OffsetDateTime,
    /// What became of it.
    pub state: LetterState,
    /// Why it was discarded.
    pub note: Option<String>,
}

/// What became of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterState {
    /// Nothing yet.
    Open,
    /// It was told again and understood.
    Replayed,
    /// A person gave it up.
    Discarded,
}

impl LetterState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Open, Self::Replayed, Self::Discarded];

    /// The string on every wire and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
        }
    }
}

impl fmt::Display for LetterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A string that names no state of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be open, replayed or discarded")]
pub struct UnknownLetterState;

impl FromStr for LetterState {
    type Err = UnknownLetterState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or(UnknownLetterState)
    }
}

/// Where a page of dead letters ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterCursor {
    /// The letter's time.
    pub received_at: OffsetDateTime,
    /// Its id.
    pub id: String,
}

impl DeadLetter {
    /// The place of this letter.
    pub fn cursor(&self) -> LetterCursor {
        LetterCursor {
            received_at: self.received_at,
            id: self.id.clone(),
        }
    }
}

/// What came of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It was told like a message and got this verdict.
    Judged(Verdict),
    /// It was replayed or discarded before.
    NotOpen(LetterState),
    /// There is no such letter.
    Missing,
}

/// What came of a discard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discarded {
    /// It is discarded now.
    Discarded(DeadLetter),
    /// It was discarded before, with the same note.
    AlreadyThere(DeadLetter),
    /// It was replayed before, or discarded with another note.
    NotOpen(DeadLetter),
    /// There is no such letter.
    Missing,
}

impl Store {
    /// A dead letter.
    pub async fn get_dead_letter(&self, id: String) -> Result<Option<DeadLetter>, Error> {
        self.read(move |conn| Box::pin(async move { read(conn, ops::DEAD_LETTER_GET, &id).await }))
            .await
    }

    /// A page of dead letters, oldest first.
    pub async fn list_dead_letters(
        &self,
        state: Option<LetterState>,
        after: Option<LetterCursor>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let start = || LetterCursor {
                    received_at: payments::START,
                    id: String::new(),
                };
                let after = after.unwrap_or_else(start);
                let rows = fetch_all!(
                    conn,
                    LetterRow,
                    ops::DEAD_LETTERS_LIST,
                    state.map(LetterState::as_str),
                    Ts(after.received_at),
                    after.id.as_str(),
                    i64::from(limit),
                )
                .map_err(doing("listing dead letters"))?;
                rows.into_iter().map(DeadLetter::try_from).collect()
            })
        })
        .await
    }

    /// Tells what a dead letter says, in one transaction with the letter's state. With `dry_run`
    /// all of it is rolled back and only the verdict is left.
    pub async fn replay_dead_letter(
        &self,
        id: String,
        fact: PaymentFact,
        dry_run: bool,
    ) -> Result<Replayed, Error> {
        let options = self.options.clone();
        let order_id = fact.content.order_id.clone();
        let batch = Batch {
            facts: vec![fact],
            dead_letters: Vec::new(),
        };
        let replayed = self
            .write_unless(dry_run, "replaying", move |tx| {
                replay(tx, id.clone(), batch.clone(), options.clone())
            })
            .await?;
        if !dry_run && replayed == Replayed::Judged(Verdict::WaitingForOrder) {
            self.settle_after_commit(vec![order_id]).await;
        }
        Ok(replayed)
    }

    /// Gives a dead letter up.
    pub async fn discard_dead_letter(&self, id: String, note: String) -> Result<Discarded, Error> {
        self.write("discarding", move |tx| {
            let (id, note) = (id.clone(), note.clone());
            Box::pin(async move {
                let Some(mut letter) = read(tx.conn(), ops::DEAD_LETTER_LOCK, &id).await? else {
                    return Ok(Discarded::Missing);
                };
                match letter.state {
                    LetterState::Open => {}
                    LetterState::Discarded if letter.note.as_ref() == Some(&note) => {
                        return Ok(Discarded::AlreadyThere(letter));
                    }
                    LetterState::Discarded | LetterState::Replayed => {
                        return Ok(Discarded::NotOpen(letter));
                    }
                }
                end(tx, &id, LetterState::Discarded, Some(&note)).await?;
                letter.state = LetterState::Discarded;
                letter.note = Some(note);
                Ok(Discarded::Discarded(letter))
            })
        })
        .await
    }
}

fn replay(
    tx: &mut Tx,
    id: String,
    batch: Batch,
    options: std::sync::Arc<StoreOptions>,
) -> crate::store::Step<'_, Replayed> {
    Box::pin(async move {
        match read(tx.conn(), ops::DEAD_LETTER_LOCK, &id).await? {
            None => return Ok(Replayed::Missing),
            Some(letter) if letter.state != LetterState::Open => {
                return Ok(Replayed::NotOpen(letter.state));
            }
            Some(_) => {}
        }
        let verdicts = record(tx, &batch, &options).await?;
        end(tx, &id, LetterState::Replayed, None).await?;
        verdicts
            .first()
            .copied()
            .map(Replayed::Judged)
            .ok_or(Error::Raced("judging a replay"))
    })
}

async fn end(tx: &mut Tx, id: &str, state: LetterState, note: Option<&str>) -> Result<(), Error> {
    let ended = execute!(tx.conn(), ops::DEAD_LETTER_END, id, state.as_str(), note);
    if ended.map_err(doing("ending a dead letter"))? == 1 {
        Ok(())
    } else {
        Err(Error::Raced("ending a locked dead letter"))
    }
}

/// Keeps messages, by key, since two batches may hold the same ones; what is known stays as it is.
pub(crate) async fn insert_all(tx: &mut Tx, letters: &[NewDeadLetter]) -> Result<(), Error> {
    let mut sorted: Vec<(String, &NewDeadLetter)> =
        letters.iter().map(|letter| (letter.id(), letter)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    for (id, letter) in sorted {
        insert(tx, &id, letter).await?;
    }
    Ok(())
}

async fn insert(tx: &mut Tx, id: &str, letter: &NewDeadLetter) -> Result<(), Error> {
    let now = tx.now();
    execute!(
        tx.conn(),
        sql::DEAD_LETTER_INSERT,
        id,
        storable(&letter.stream),
        storable(&letter.subject),
        i64::try_from(letter.sequence).unwrap_or(i64::MAX),
        storable(&letter.headers),
        letter.body.as_slice(),
        letter.reason,
        storable(&letter.detail),
        now,
    )
    .map(drop)
    .map_err(doing("keeping a dead letter"))
}

/// PostgreSQL's text holds no U+0000: a letter must not be refused for what it is kept for.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

async fn read(conn: &mut Conn, statement: Sql, id: &str) -> Result<Option<DeadLetter>, Error> {
    let rows =
        fetch_all!(conn, LetterRow, statement, id).map_err(doing("reading a dead letter"))?;
    rows.into_iter()
        .next()
        .map(DeadLetter::try_from)
        .transpose()
}

#[derive(sqlx::FromRow)]
struct LetterRow {
    id: String,
    stream: String,
    subject: String,
    sequence: i64,
    headers: String,
    body: Vec<u8>,
    reason: String,
    detail: String,
    received_at: Ts,
    state: String,
    note: Option<String>,
}

impl TryFrom<LetterRow> for DeadLetter {
    type Error = Error;

    fn try_from(row: LetterRow) -> Result<Self, Error> {
        let at = Row {
            table: "dead_letters",
            id: &row.id,
        };
        Ok(Self {
            state: at.column("state", row.state.parse())?,
            id: row.id,
            stream: row.stream,
            subject: row.subject,
            sequence: row.sequence,
            headers: row.headers,
            body: row.body,
            reason: row.reason,
            detail: row.detail,
            received_at: row.received_at.0,
            note: row.note,
        })
    }
}
