//! The answers of the payment service, told as facts.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use order_fsm::{OrderStatus, PaymentKey, PaymentKind, Verdict};

use crate::conn::fetch_all;
use crate::error::{Error, doing};
use crate::orders::Row;
use crate::record::{Batch, PaymentFact};
use crate::sql::reconcile as sql;
use crate::store::Store;

/// What a run reports to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// A lost payment was found and applied.
    Healed,
    /// A lost payment of a cancelled order was found.
    PaidAfterCancel,
    /// A lost second payment was found.
    SecondPayment,
    /// A payment doesn't fit its order.
    Mismatch,
    /// A lost refund was found.
    Refunded,
    /// The rows, or the payment service and the rows, contradict one another.
    Inconsistent,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Healed,
        Self::PaidAfterCancel,
        Self::SecondPayment,
        Self::Mismatch,
        Self::Refunded,
        Self::Inconsistent,
    ];

    /// The string on every wire and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healed => "healed",
            Self::PaidAfterCancel => "paid-after-cancel",
            Self::SecondPayment => "second-payment",
            Self::Mismatch => "mismatch",
            Self::Refunded => "refunded",
            Self::Inconsistent => "inconsistent",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for FindingKind {
    type Err = super::UnknownRunWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|known| known.as_str() == text);
        known.ok_or_else(|| super::UnknownRunWord(text.to_owned()))
    }
}

/// What an answer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The payment was new: it has this verdict.
    New(Verdict),
    /// The payment was known, with this verdict, and the order is in this status.
    Known(Verdict, OrderStatus),
    /// It was known with other content, or is not of this mode: an exception, if anything.
    Conflict(Verdict),
    /// It was known, and more is not to be said.
    Duplicate,
}

impl Store {
    /// Records facts like [`Store::record_payments`]; a dry run is rolled back. Says of each fact
    /// what it did, in order.
    pub async fn tell_answers(
        &self,
        facts: Vec<PaymentFact>,
        dry_run: bool,
    ) -> Result<Vec<Told>, Error> {
        if facts.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch {
            facts: facts.clone(),
            dead_letters: Vec::new(),
        };
        let verdicts = self.record_unless(dry_run, batch).await?;
        let again: Vec<&PaymentFact> = facts
            .iter()
            .zip(&verdicts)
            .filter(|(_, verdict)| **verdict == Verdict::Duplicate)
            .map(|(fact, _)| fact)
            .filter(|fact| fact.key.kind == PaymentKind::Succeeded)
            .collect();
        let known = self.known_of(&again).await?;
        Ok(facts
            .iter()
            .zip(verdicts)
            .map(|(fact, verdict)| match verdict {
                Verdict::Duplicate => known
                    .get(&fact.key)
                    .map_or(Told::Duplicate, |(verdict, status)| {
                        Told::Known(*verdict, *status)
                    }),
                Verdict::ConflictingContent | Verdict::NotLive => Told::Conflict(verdict),
                Verdict::AttemptFailed
                | Verdict::Reversed
                | Verdict::Unsupported
                | Verdict::WaitingForOrder
                | Verdict::SecondPayment
                | Verdict::PaidAfterCancel
                | Verdict::CurrencyMismatch
                | Verdict::AmountMismatch
                | Verdict::Applied => Told::New(verdict),
            })
            .collect())
    }

    /// Of successes that were known: their verdict and the status of their order, as of now.
    async fn known_of(
        &self,
        facts: &[&PaymentFact],
    ) -> Result<HashMap<PaymentKey, (Verdict, OrderStatus)>, Error> {
        if facts.is_empty() {
            return Ok(HashMap::new());
        }
        let rows: Vec<serde_json::Value> = facts
            .iter()
            .map(|fact| {
                serde_json::json!([
                    fact.content.order_id.as_str(),
                    fact.key.provider.as_str(),
                    fact.key.transaction_id.as_str(),
                ])
            })
            .collect();
        let rows = serde_json::Value::from(rows).to_string();
        let known = self.read(move |conn| {
            Box::pin(async move {
                fetch_all!(
                    conn,
                    (String, String, String, String, String),
                    sql::TOLD_AGAIN,
                    rows.as_str()
                )
                .map_err(doing("reading what was told again"))
            })
        });
        known
            .await?
            .into_iter()
            .map(|(order_id, status, provider, transaction_id, verdict)| {
                let at = Row {
                    table: "orders",
                    id: &order_id,
                };
                let key = PaymentKey {
                    provider: at.column("provider", provider.parse())?,
                    transaction_id: at.column("transaction_id", transaction_id.parse())?,
                    kind: PaymentKind::Succeeded,
                };
                let verdict = at.column("verdict", verdict.parse())?;
                Ok((key, (verdict, at.column("status", status.parse())?)))
            })
            .collect()
    }
}
