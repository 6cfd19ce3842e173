//! The answers of the payment service, recorded as facts.

use std::collections::HashMap;

use order_fsm::{OrderStatus, PaymentKey, PaymentKind, Verdict};

use crate::conn::Conn;
use crate::error::Error;
use crate::payments::PaymentFact;
use crate::record::Batch;
use crate::rows::{Checked, Row, Stored, from_row, sort_out};
use crate::run::{fetch_all, json_rows};
use crate::sql;
use crate::store::Store;
use crate::words::words;

words! {
    /// What a run reports to people.
    pub enum FindingKind, "the kind of a finding" {
        /// A lost payment was found and applied.
        Healed = "healed",
        /// A lost payment of a cancelled order was found.
        PaidAfterCancel = "paid-after-cancel",
        /// A lost second payment was found.
        SecondPayment = "second-payment",
        /// A payment doesn't fit its order.
        Mismatch = "mismatch",
        /// A lost refund was found.
        Refunded = "refunded",
        /// The rows, or the payment service and the rows, contradict one another.
        Inconsistent = "inconsistent",
    }
}

/// What an answer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedAnswer {
    /// The payment was new: it has this verdict.
    New(Verdict),
    /// The payment was known, with this verdict, and the order is in this status.
    Known(Verdict, OrderStatus),
    /// It was known with other content, or is not of this mode: an exception, if anything.
    Conflict(Verdict),
    /// The payment was known, with this verdict, and a person gave it up: closed its exception as
    /// refunded or written off. It no longer counts for its order.
    GivenUp(Verdict),
    /// It was known, and nothing more can be found out about it.
    Duplicate,
    /// It can't be judged now: a row can't be read. Nothing is written about it.
    Unreadable,
}

impl Store {
    /// Records facts like [`Store::record_payments`]; a dry run is rolled back. Returns what became of each fact, in order.
    pub async fn record_answers(
        &self,
        facts: Vec<PaymentFact>,
        dry_run: bool,
    ) -> Result<Vec<RecordedAnswer>, Error> {
        if facts.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch {
            facts: facts.clone(),
            dead_letters: Vec::new(),
        };
        let recorded = self.record_each_unless(dry_run, batch).await?;
        let again: Vec<&PaymentFact> = facts
            .iter()
            .zip(&recorded)
            .filter(|(_, recorded)| matches!(recorded, Ok(Verdict::Duplicate)))
            .map(|(fact, _)| fact)
            .filter(|fact| fact.key.kind == PaymentKind::Succeeded)
            .collect();
        let known = self.known_of(&again).await?;
        Ok(facts
            .iter()
            .zip(recorded)
            .map(|(fact, recorded)| {
                let Ok(verdict) = recorded else {
                    return RecordedAnswer::Unreadable;
                };
                match verdict {
                    Verdict::Duplicate => known
                        .get(&fact.key)
                        .copied()
                        .unwrap_or(RecordedAnswer::Duplicate),
                    Verdict::ConflictingContent | Verdict::NotLive => {
                        RecordedAnswer::Conflict(verdict)
                    }
                    Verdict::AttemptFailed
                    | Verdict::Reversed
                    | Verdict::Unsupported
                    | Verdict::WaitingForOrder
                    | Verdict::SecondPayment
                    | Verdict::PaidAfterCancel
                    | Verdict::CurrencyMismatch
                    | Verdict::AmountMismatch
                    | Verdict::Applied => RecordedAnswer::New(verdict),
                }
            })
            .collect())
    }

    /// What is known of successes that were recorded before, as of now.
    async fn known_of(
        &self,
        facts: &[&PaymentFact],
    ) -> Result<HashMap<PaymentKey, RecordedAnswer>, Error> {
        if facts.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = json_rows!(facts, |fact| [
            fact.content.order_id.as_str(),
            fact.key.provider.as_str(),
            fact.key.transaction_id.as_str(),
        ]);
        let known = self.read("reading payments that were reported again", (rows,), again);
        let (known, unreadable) = sort_out(known.await?);
        self.note_unreadable(&unreadable);
        Ok(known
            .into_iter()
            .map(|known| (known.key, known.recorded))
            .collect())
    }
}

async fn again(conn: &mut Conn, (rows,): &(String,)) -> sqlx::Result<Vec<Checked<ReportedAgain>>> {
    fetch_all!(
        conn,
        Checked<ReportedAgain>,
        sql::payments::REPORTED_AGAIN,
        rows
    )
}

/// A payment that was reported again, and what is known of it.
struct ReportedAgain {
    key: PaymentKey,
    recorded: RecordedAnswer,
}

from_row! {
    struct ReportedAgainRow {
        order_id: String,
        status: String,
        provider: String,
        transaction_id: String,
        verdict: String,
        given_up: i64,
    }
}

impl Stored for ReportedAgain {
    type Row = ReportedAgainRow;
    const TABLE: &'static str = "orders";
    const KEY: &'static [&'static str] = &["order_id"];
}

impl TryFrom<ReportedAgainRow> for ReportedAgain {
    type Error = Error;

    fn try_from(row: ReportedAgainRow) -> Result<Self, Error> {
        let at = Row {
            table: Self::TABLE,
            id: &row.order_id,
        };
        let verdict = at.column("verdict", row.verdict.parse())?;
        let status = at.column("status", row.status.parse())?;
        Ok(Self {
            key: PaymentKey {
                provider: at.column("provider", row.provider.parse())?,
                transaction_id: at.column("transaction_id", row.transaction_id.parse())?,
                kind: PaymentKind::Succeeded,
            },
            recorded: if row.given_up == 0 {
                RecordedAnswer::Known(verdict, status)
            } else {
                RecordedAnswer::GivenUp(verdict)
            },
        })
    }
}
