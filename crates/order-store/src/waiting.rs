//! The payments that wait for their order, walked through in bounded steps, however many there are.

use crate::conn::Conn;
use crate::error::Error;
use crate::run::fetch_all;
use crate::sql;
use crate::store::Store;
use crate::text::Lossy;

/// Sorts behind every provider.
const BEHIND_ALL: &str = "\u{10ffff}";

/// Names a waiting payment, as the end of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingKey {
    provider: String,
    transaction_id: String,
    kind: String,
}

/// Waiting payments one after the other: those behind `after`, up to `until`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRange {
    after: WaitingKey,
    /// Where the next range begins; absent if this one is the last.
    pub until: Option<WaitingKey>,
}

impl WaitingKey {
    fn parts(&self) -> (&str, &str, &str) {
        (&self.provider, &self.transaction_id, &self.kind)
    }
}

impl WaitingRange {
    /// Every payment there may be.
    pub const ALL: Self = Self {
        after: WaitingKey {
            provider: String::new(),
            transaction_id: String::new(),
            kind: String::new(),
        },
        until: None,
    };

    pub(crate) fn after(&self) -> (&str, &str, &str) {
        self.after.parts()
    }

    pub(crate) fn until(&self) -> (&str, &str, &str) {
        self.until
            .as_ref()
            .map_or((BEHIND_ALL, "", ""), WaitingKey::parts)
    }
}

impl Store {
    /// The next `count` waiting payments behind a place.
    pub async fn waiting_range(
        &self,
        after: Option<WaitingKey>,
        count: u32,
    ) -> Result<WaitingRange, Error> {
        let after = after.unwrap_or(WaitingRange::ALL.after);
        let args = (after.clone(), i64::from(count.max(1)));
        let until = self
            .read("looking through waiting payments", args, step)
            .await?;
        Ok(WaitingRange { after, until })
    }
}

/// The key at the end of a step. A damaged key may lie elsewhere than it reads: a row whose key doesn't lead on is passed,
/// or the walk would come back to it again and again and never reach those behind.
async fn step(
    conn: &mut Conn,
    (after, count): &(WaitingKey, i64),
) -> sqlx::Result<Option<WaitingKey>> {
    let (provider, transaction_id, kind) = after.parts();
    let mut passed = count - 1;
    loop {
        let ends = fetch_all!(
            conn,
            (Lossy, Lossy, Lossy),
            sql::payments::WAITING_STEP,
            provider,
            transaction_id,
            kind,
            passed
        )?;
        let end = ends.into_iter().next();
        let Some((provider, transaction_id, kind)) = end else {
            return Ok(None);
        };
        let end = WaitingKey {
            provider: provider.0,
            transaction_id: transaction_id.0,
            kind: kind.0,
        };
        if end > *after {
            return Ok(Some(end));
        }
        passed += count;
    }
}
