//! Cursors: the place where a page ended, opaque to callers and bound to its list.
//!
//! A cursor contains no secret and grants no rights, so it isn't signed. A forged one leads to
//! another page of the same list or to a 400: each part is validated like any other input.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use order_store::{
    ExceptionCursor, HistoryCursor, LetterCursor, OrderCursor, PaymentCursor, Place, RunCursor,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

/// The list a cursor belongs to, with its filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope(String);

impl Scope {
    /// The scope of a list, by its operation and filters.
    pub(crate) fn new(list: &str, filters: &[Option<String>]) -> Self {
        let mut digest = Sha256::new();
        digest.update(serde_json::json!([list, filters]).to_string());
        Self(URL_SAFE_NO_PAD.encode(&digest.finalize()[..9]))
    }
}

/// A text that isn't a cursor of this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl fmt::Display for InvalidCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not a cursor of this list with these filters")
    }
}

/// The item that a page begins behind.
pub(crate) trait Cursor: Sized {
    /// Its parts.
    type Parts: Serialize + DeserializeOwned;

    fn to_parts(&self) -> Self::Parts;

    /// `None` if the database can't be queried with these parts.
    fn from_parts(parts: Self::Parts) -> Option<Self>;
}

/// How many unreadable rows a page may skip at its beginning, as it reads them each time.
const PASSED_MAX: u32 = 100_000;

/// The list, the item, and how many unreadable rows after it were skipped, if any.
#[derive(Serialize, Deserialize)]
struct Token<P>(
    String,
    Option<P>,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<u32>,
);

/// Writes a cursor.
pub(crate) fn write<C: Cursor>(scope: &Scope, place: &Place<C>) -> String {
    let item = place.after.as_ref().map(Cursor::to_parts);
    let passed = Some(place.passed).filter(|passed| *passed > 0);
    let token = Token(scope.0.clone(), item, passed);
    let json = serde_json::to_vec(&token).expect("texts and integers serialise without fail");
    URL_SAFE_NO_PAD.encode(json)
}

/// Reads a cursor of this list.
pub(crate) fn read<C: Cursor>(scope: &Scope, text: &str) -> Result<Place<C>, InvalidCursor> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
    let Token(list, item, passed) =
        serde_json::from_slice::<Token<C::Parts>>(&json).map_err(|_| InvalidCursor)?;
    let passed = passed.unwrap_or(0);
    // No cursor points to the beginning of a list.
    if list != scope.0 || passed > PASSED_MAX || (item.is_none() && passed == 0) {
        return Err(InvalidCursor);
    }
    let after = match item {
        Some(parts) => Some(C::from_parts(parts).ok_or(InvalidCursor)?),
        None => None,
    };
    Ok(Place { after, passed })
}

/// A time and an id, which most lists are ordered by.
macro_rules! time_and_id {
    ($($cursor:ident { $time:ident, $id:ident: $is_id:expr })*) => {$(
        impl Cursor for $cursor {
            type Parts = (i64, String);

            fn to_parts(&self) -> Self::Parts {
                (micros(self.$time), self.$id.clone())
            }

            fn from_parts((at, $id): Self::Parts) -> Option<Self> {
                let $time = from_micros(at).filter(|_| $is_id(&$id))?;
                Some(Self { $time, $id })
            }
        }
    )*};
}

time_and_id! {
    OrderCursor { created_at, order_id: is_order_id }
    ExceptionCursor { opened_at, id: is_sendable }
    LetterCursor { received_at, id: is_sendable }
    RunCursor { started_at, id: is_sendable }
}

fn is_order_id(text: &str) -> bool {
    text.parse::<order_fsm::OrderId>().is_ok()
}

/// PostgreSQL rejects U+0000 in text with an error instead of finding no rows.
fn is_sendable(text: &str) -> bool {
    !text.contains('\0')
}

impl Cursor for PaymentCursor {
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

impl Cursor for HistoryCursor {
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
        let texts = [&event, &reason, &provider, &transaction_id];
        let sendable = texts.iter().all(|text| is_sendable(text));
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

/// Only years of four digits, which every database supports.
fn from_micros(micros: i64) -> Option<OffsetDateTime> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).ok()?;
    (0..=9999).contains(&at.year()).then_some(at)
}
