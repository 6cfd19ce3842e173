//! Cursors: the place where a page ended, opaque to callers and bound to its list.
//!
//! A cursor carries no secret and grants nothing, so it isn't signed. Who forges one gets another
//! page of the same list, or a 400: every part of a place is checked like any other input.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use order_store::{
    DeadLetter, ExceptionCursor, HistoryCursor, HistoryItem, LetterCursor, Payment, PaymentCursor,
    PaymentException, Run, RunCursor,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

/// The list a cursor belongs to, with its filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope(String);

impl Scope {
    /// A list by its operation, and what narrows it.
    pub(crate) fn new(list: &str, filters: &[Option<&str>]) -> Self {
        let mut digest = Sha256::new();
        digest.update(serde_json::json!([list, filters]).to_string());
        Self(URL_SAFE_NO_PAD.encode(&digest.finalize()[..9]))
    }
}

/// A text that is no cursor of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl fmt::Display for InvalidCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is no cursor of this list with these filters")
    }
}

/// A place in a list.
pub(crate) trait Place: Sized {
    /// Its parts.
    type Parts: Serialize + DeserializeOwned;

    fn to_parts(&self) -> Self::Parts;

    /// Only places that the database can be asked about.
    fn from_parts(parts: Self::Parts) -> Option<Self>;
}

#[derive(Serialize, Deserialize)]
struct Token<P>(String, P);

/// Writes a cursor.
pub(crate) fn write<P: Place>(scope: &Scope, place: &P) -> String {
    let token = Token(scope.0.clone(), place.to_parts());
    let json = serde_json::to_vec(&token).expect("texts and integers serialise without fail");
    URL_SAFE_NO_PAD.encode(json)
}

/// Reads a cursor of this list.
pub(crate) fn read<P: Place>(scope: &Scope, text: &str) -> Result<P, InvalidCursor> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
    let Token(list, parts) =
        serde_json::from_slice::<Token<P::Parts>>(&json).map_err(|_| InvalidCursor)?;
    if list != scope.0 {
        return Err(InvalidCursor);
    }
    P::from_parts(parts).ok_or(InvalidCursor)
}

/// Something that a list consists of.
pub(crate) trait Listed {
    /// Where it is.
    type Place: Place;

    fn place(&self) -> Self::Place;
}

impl Listed for Payment {
    type Place = PaymentCursor;

    fn place(&self) -> PaymentCursor {
        self.cursor()
    }
}

impl Listed for HistoryItem {
    type Place = HistoryCursor;

    fn place(&self) -> HistoryCursor {
        self.cursor()
    }
}

impl Listed for PaymentException {
    type Place = ExceptionCursor;

    fn place(&self) -> ExceptionCursor {
        self.cursor()
    }
}

impl Listed for DeadLetter {
    type Place = LetterCursor;

    fn place(&self) -> LetterCursor {
        self.cursor()
    }
}

impl Listed for Run {
    type Place = RunCursor;

    fn place(&self) -> RunCursor {
        self.cursor()
    }
}

impl Place for RunCursor {
    type Parts = (i64, String);

    fn to_parts(&self) -> Self::Parts {
        (micros(self.started_at), self.id.clone())
    }

    fn from_parts((at, id): Self::Parts) -> Option<Self> {
        let started_at = from_micros(at).filter(|_| !id.contains('\0'))?;
        Some(Self { started_at, id })
    }
}

impl Place for ExceptionCursor {
    type Parts = (i64, String);

    fn to_parts(&self) -> Self::Parts {
        (micros(self.opened_at), self.id.clone())
    }

    fn from_parts((at, id): Self::Parts) -> Option<Self> {
        let opened_at = from_micros(at).filter(|_| !id.contains('\0'))?;
        Some(Self { opened_at, id })
    }
}

impl Place for LetterCursor {
    type Parts = (i64, String);

    fn to_parts(&self) -> Self::Parts {
        (micros(self.received_at), self.id.clone())
    }

    fn from_parts((at, id): Self::Parts) -> Option<Self> {
        let received_at = from_micros(at).filter(|_| !id.contains('\0'))?;
        Some(Self { received_at, id })
    }
}

impl Place for PaymentCursor {
    type Parts = (i64, String, String, String);

    fn to_parts(&self) -> Self::Parts {
        let Self {
            received_at,
            provider,
            transaction_id,
            kind,
        } = self.clone();
        (micros(received_at), provider, transaction_id, kind)
    }

    fn from_parts((at, provider, transaction_id, kind): Self::Parts) -> Option<Self> {
        provider.parse::<order_fsm::Provider>().ok()?;
        transaction_id.parse::<order_fsm::TransactionId>().ok()?;
        kind.parse::<order_fsm::PaymentKind>().ok()?;
        Some(Self {
            received_at: from_micros(at)?,
            provider,
            transaction_id,
            kind,
        })
    }
}

impl Place for HistoryCursor {
    type Parts = (i64, bool, i64, String, String, String, String);

    fn to_parts(&self) -> Self::Parts {
        let Self {
            version,
            refused,
            at,
            event,
            reason,
            provider,
            transaction_id,
        } = self.clone();
        (
            version,
            refused,
            micros(at),
            event,
            reason,
            provider,
            transaction_id,
        )
    }

    fn from_parts(parts: Self::Parts) -> Option<Self> {
        let (version, refused, at, event, reason, provider, transaction_id) = parts;
        // PostgreSQL has no text with U+0000 and answers with an error instead of no rows.
        let texts = [&event, &reason, &provider, &transaction_id];
        let sendable = texts.iter().all(|text| !text.contains('\0'));
        let at = from_micros(at).filter(|_| sendable)?;
        Some(Self {
            version,
            refused,
            at,
            event,
            reason,
            provider,
            transaction_id,
        })
    }
}

fn micros(at: OffsetDateTime) -> i64 {
    // Four-digit years have some 2.5e17 microseconds, and no others are stored.
    i64::try_from(at.unix_timestamp_nanos().div_euclid(1000)).unwrap_or(i64::MAX)
}

/// Times of four-digit years: not every database knows others.
fn from_micros(micros: i64) -> Option<OffsetDateTime> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).ok()?;
    (0..=9999).contains(&at.year()).then_some(at)
}
