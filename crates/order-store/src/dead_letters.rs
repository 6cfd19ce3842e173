//! Messages that weren't understood, kept byte for byte until a person replays or discards them.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::conn::Conn;
use crate::digest::digest;
use crate::error::{Error, doing};
use crate::page::{self, Listed, Page, Place};
use crate::rows::{Checked, Row, Stored, from_row};
use crate::run::{Bytes, execute, execute_rows, fetch_all};
use crate::sql;
use crate::store::Store;
use crate::ts::{Bound, Ts};
use crate::tx::Tx;
use crate::words::words;

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
        let body = hex::encode(Sha256::digest(&self.body));
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

words! {
    /// What became of a dead letter.
    pub enum LetterState, "open, replayed or discarded" {
        /// Nothing yet.
        Open = "open",
        /// It was replayed and understood.
        Replayed = "replayed",
        /// A person gave it up.
        Discarded = "discarded",
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

/// A page of dead letters.
pub type LetterPage = Page<DeadLetter, LetterCursor>;

impl Listed for DeadLetter {
    type Cursor = LetterCursor;

    fn cursor(&self) -> LetterCursor {
        LetterCursor {
            received_at: self.received_at,
            id: self.id.clone(),
        }
    }
}

impl Store {
    /// A dead letter.
    pub async fn get_dead_letter(&self, id: String) -> Result<Option<DeadLetter>, Error> {
        let rows = self.read("reading a dead letter", (id,), get);
        self.only(rows.await?)
    }

    /// A page of dead letters, oldest first.
    pub async fn list_dead_letters(
        &self,
        state: Option<LetterState>,
        from: Place<LetterCursor>,
        limit: u32,
    ) -> Result<LetterPage, Error> {
        let read = self.read("listing dead letters", (state, from, limit), list);
        Ok(self.noting(read.await?))
    }
}

async fn get(conn: &mut Conn, (id,): &(String,)) -> sqlx::Result<Vec<Checked<DeadLetter>>> {
    fetch_all!(conn, Checked<DeadLetter>, sql::dead_letters::GET, id)
}

async fn list(
    conn: &mut Conn,
    (state, from, limit): &(Option<LetterState>, Place<LetterCursor>, u32),
) -> sqlx::Result<(LetterPage, Vec<Error>)> {
    let after = from.after.as_ref();
    let received_at = after.map_or(Bound::START, |after| after.received_at.into());
    let id = after.map_or("", |after| after.id.as_str());
    let (limit_and_one, passed) = (page::fetch(*limit), i64::from(from.passed));
    let rows = match state {
        Some(LetterState::Open) => fetch_all!(
            conn,
            Checked<DeadLetter>,
            sql::dead_letters::OPEN,
            received_at,
            id,
            limit_and_one,
            passed,
        ),
        other => fetch_all!(
            conn,
            Checked<DeadLetter>,
            sql::dead_letters::LIST,
            other.map(LetterState::as_str),
            received_at,
            id,
            limit_and_one,
            passed,
        ),
    }?;
    Ok(page::page(rows, from, *limit))
}

/// Ends an open letter whose row is locked.
pub(crate) async fn end(
    tx: &mut Tx,
    id: &str,
    state: LetterState,
    note: Option<&str>,
) -> Result<(), Error> {
    let ended = execute!(tx.conn(), sql::dead_letters::END, id, state.as_str(), note);
    if ended.map_err(doing("ending a dead letter"))? == 1 {
        Ok(())
    } else {
        Err(Error::Raced("ending a locked dead letter"))
    }
}

/// The most bytes of one statement; what a batch holds beyond them goes with the next one.
const STATEMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Keeps messages; what is known stays as it is.
pub(crate) async fn insert_all(tx: &mut Tx, letters: &[NewDeadLetter]) -> Result<(), Error> {
    let mut rows: Vec<(String, &NewDeadLetter)> =
        letters.iter().map(|letter| (letter.id(), letter)).collect();
    // By key: two batches may hold the same ones.
    rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|(_, letter)| {
            let fits = bytes < STATEMENT_BYTES_MAX;
            bytes += letter.body.len() + letter.headers.len();
            fits
        });
        let (now, later) = rest.split_at(fitting.count());
        insert(tx, now).await?;
        rest = later;
    }
    Ok(())
}

async fn insert(tx: &mut Tx, rows: &[(String, &NewDeadLetter)]) -> Result<(), Error> {
    let now = tx.now();
    execute_rows!(
        tx.conn(),
        sql::dead_letters::INSERT,
        rows,
        |row| [
            row.0.as_str(),
            storable(&row.1.stream),
            storable(&row.1.subject),
            i64::try_from(row.1.sequence).unwrap_or(i64::MAX),
            storable(&row.1.headers),
            Bytes(&row.1.body),
            row.1.reason,
            storable(&row.1.detail),
        ],
        now,
    )
    .map(drop)
    .map_err(doing("keeping dead letters"))
}

/// PostgreSQL's text holds no U+0000: a letter must not be refused for what it is kept for.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Reads a letter under its lock.
pub(crate) async fn lock(tx: &mut Tx, id: &str) -> Result<Option<DeadLetter>, Error> {
    let rows = fetch_all!(tx.conn(), Checked<DeadLetter>, sql::dead_letters::LOCK, id)
        .map_err(doing("reading a dead letter"))?;
    tx.only(rows)
}

from_row! {
    pub(crate) struct LetterRow {
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
}

impl Stored for DeadLetter {
    type Row = LetterRow;
    const TABLE: &'static str = "dead_letters";
    const KEY: &'static [&'static str] = &["id"];
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
