//! Messages that nobody understood, kept byte for byte.

use sha2::{Digest as _, Sha256};

use crate::conn::{Tx, execute};
use crate::error::{Error, doing};
use crate::exceptions::{digest, hex};
use crate::sql;

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

/// Keeps a message; one that is known stays as it is.
pub(crate) async fn insert(tx: &mut Tx, letter: &NewDeadLetter) -> Result<(), Error> {
    let now = tx.now();
    let id = letter.id();
    execute!(
        tx.conn(),
        sql::DEAD_LETTER_INSERT,
        id.as_str(),
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
