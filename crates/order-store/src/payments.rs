//! Recorded payments: claimed once, for ever.

use std::collections::HashMap;

use order_fsm::{Content, EventId, OrderId, PaymentKey, Provider, TransactionId, Verdict};
use time::OffsetDateTime;

use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::page::{self, Listed, Page, Place};
use crate::rows::{Checked, Row, Stored, from_row, sort_out};
use crate::run::{execute_rows, fetch_all, fetch_rows};
use crate::source::Source;
use crate::sql;
use crate::store::Store;
use crate::ts::{Bound, Ts};
use crate::tx::Tx;

/// A recorded payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Which payment.
    pub key: PaymentKey,
    /// The event id of the message that reported it first; absent if reconciliation did.
    pub event_id: Option<EventId>,
    /// For which order, how much.
    pub content: Content,
    /// What became of it.
    pub verdict: Verdict,
    /// When it happened, as reported.
    pub occurred_at: OffsetDateTime,
    /// When it was recorded.
    pub received_at: OffsetDateTime,
    /// Which way it came in.
    pub source: Source,
}

/// What a message or an answer says about a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentFact {
    /// Which payment.
    pub key: PaymentKey,
    /// The label of the message.
    pub event_id: Option<EventId>,
    /// For which order, how much.
    pub content: Content,
    /// When it happened, as reported.
    pub occurred_at: OffsetDateTime,
    /// Whether real money moved.
    pub livemode: bool,
    /// Which way it came in.
    pub source: Source,
}

/// Where a page of payments ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentCursor {
    /// The payment's time; not compared in lists over all orders.
    pub received_at: OffsetDateTime,
    /// Its provider.
    pub provider: String,
    /// Its transaction.
    pub transaction_id: String,
    /// Its kind.
    pub kind: String,
}

impl Listed for Payment {
    type Cursor = PaymentCursor;

    fn cursor(&self) -> PaymentCursor {
        PaymentCursor {
            received_at: self.received_at,
            provider: self.key.provider.to_string(),
            transaction_id: self.key.transaction_id.to_string(),
            kind: self.key.kind.to_string(),
        }
    }
}

impl PaymentCursor {
    /// The key that a page begins behind: before every key without a cursor.
    pub(crate) fn key(after: Option<&Self>) -> (&str, &str, &str) {
        after.map_or(("", "", ""), |after| {
            (&after.provider, &after.transaction_id, &after.kind)
        })
    }
}

/// A page of payments.
pub type PaymentPage = Page<Payment, PaymentCursor>;

/// Which payments to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Only of this provider.
    pub provider: Option<Provider>,
    /// Only of this transaction.
    pub transaction_id: Option<TransactionId>,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
}

impl Store {
    /// A page of the payments of an order, oldest first, whether the order exists or not.
    pub async fn order_payments(
        &self,
        order_id: OrderId,
        from: Place<PaymentCursor>,
        limit: u32,
    ) -> Result<PaymentPage, Error> {
        let read = self.read(
            "listing the payments of an order",
            (order_id, from, limit),
            of_order,
        );
        Ok(self.noting(read.await?))
    }

    /// A page of all payments, in key order.
    pub async fn list_payments(
        &self,
        filter: PaymentFilter,
        from: Place<PaymentCursor>,
        limit: u32,
    ) -> Result<PaymentPage, Error> {
        let read = self.read("listing payments", (filter, from, limit), list);
        Ok(self.noting(read.await?))
    }
}

async fn of_order(
    conn: &mut Conn,
    (order_id, from, limit): &(OrderId, Place<PaymentCursor>, u32),
) -> sqlx::Result<(PaymentPage, Vec<Error>)> {
    let after = from.after.as_ref();
    let (provider, transaction_id, kind) = PaymentCursor::key(after);
    let rows = fetch_all!(
        conn,
        Checked<Payment>,
        sql::payments::OF_ORDER,
        order_id.as_str(),
        after.map_or(Bound::START, |after| after.received_at.into()),
        provider,
        transaction_id,
        kind,
        page::fetch(*limit),
        i64::from(from.passed),
    )?;
    Ok(page::page(rows, from, *limit))
}

async fn list(
    conn: &mut Conn,
    (filter, from, limit): &(PaymentFilter, Place<PaymentCursor>, u32),
) -> sqlx::Result<(PaymentPage, Vec<Error>)> {
    // A transaction alone is looked up under each provider, never by a scan.
    let statement = match (&filter.provider, &filter.transaction_id) {
        (None, Some(_)) => sql::payments::OF_TRANSACTION,
        _ => sql::payments::LIST,
    };
    let (provider, transaction_id, kind) = PaymentCursor::key(from.after.as_ref());
    let rows = fetch_all!(
        conn,
        Checked<Payment>,
        statement,
        filter.provider.as_ref().map(Provider::as_str),
        filter.transaction_id.as_ref().map(TransactionId::as_str),
        filter.verdict.map(Verdict::as_str),
        provider,
        transaction_id,
        kind,
        page::fetch(*limit),
        i64::from(from.passed),
    )?;
    Ok(page::page(rows, from, *limit))
}

/// A payment to be claimed.
pub(crate) struct NewPayment<'a> {
    pub(crate) fact: &'a PaymentFact,
    /// Provisional for a success: the same transaction judges it.
    pub(crate) verdict: Verdict,
}

/// Inserts payments that are not there yet; returns the keys that are new. Keys must differ.
pub(crate) async fn claim(tx: &mut Tx, rows: &[NewPayment<'_>]) -> Result<Vec<PaymentKey>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let now = tx.now();
    let keys = fetch_rows!(
        tx.conn(),
        KeyRow,
        sql::payments::CLAIM,
        rows,
        |new| [
            new.fact.key.provider.as_str(),
            new.fact.key.transaction_id.as_str(),
            new.fact.key.kind.as_str(),
            new.fact.event_id.as_ref().map(EventId::as_str),
            new.fact.content.order_id.as_str(),
            new.fact.content.amount.minor_units(),
            new.fact.content.currency.as_str(),
            Ts::truncated(new.fact.occurred_at),
            new.verdict.as_str(),
            new.fact.source.as_str(),
        ],
        now,
    );
    keys.map_err(doing("claiming payments"))?
        .iter()
        .map(KeyRow::key)
        .collect()
}

/// The recorded content of payments: the readable ones, and what is wrong with the others.
pub(crate) async fn known(
    tx: &mut Tx,
    keys: &[&PaymentKey],
) -> Result<(HashMap<PaymentKey, Content>, Vec<Error>), Error> {
    if keys.is_empty() {
        return Ok((HashMap::new(), Vec::new()));
    }
    let rows = fetch_rows!(
        tx.conn(),
        Checked<Known>,
        sql::payments::KNOWN,
        keys,
        |key| [
            key.provider.as_str(),
            key.transaction_id.as_str(),
            key.kind.as_str(),
        ],
    );
    let (known, unreadable) = sort_out(rows.map_err(doing("reading known payments"))?);
    tx.note_unreadable(&unreadable);
    let known = known.into_iter().map(|known| (known.key, known.content));
    Ok((known.collect(), unreadable))
}

/// A payment's key as errors about its row name it.
pub(crate) fn row_name(key: &PaymentKey) -> String {
    format!("{}/{}/{}", key.provider, key.transaction_id, key.kind)
}

/// Rewrites verdicts of payments that are stored with `stored`; returns how many it rewrote.
pub(crate) async fn set_verdicts(
    tx: &mut Tx,
    changed: &[(&PaymentKey, Verdict)],
    stored: Verdict,
) -> Result<u64, Error> {
    if changed.is_empty() {
        return Ok(0);
    }
    execute_rows!(
        tx.conn(),
        sql::payments::SET_VERDICTS,
        changed,
        |row| [
            row.0.provider.as_str(),
            row.0.transaction_id.as_str(),
            row.0.kind.as_str(),
            row.1.as_str(),
        ],
        stored.as_str(),
    )
    .map_err(doing("writing verdicts"))
}

from_row! {
    struct KeyRow {
        provider: String,
        transaction_id: String,
        kind: String,
    }
}

impl KeyRow {
    fn key(&self) -> Result<PaymentKey, Error> {
        let at = Row {
            table: "payments",
            id: &self.transaction_id,
        };
        Ok(PaymentKey {
            provider: at.column("provider", self.provider.parse())?,
            transaction_id: at.column("transaction_id", self.transaction_id.parse())?,
            kind: at.column("kind", self.kind.parse())?,
        })
    }
}

/// What is recorded about a payment.
struct Known {
    key: PaymentKey,
    content: Content,
}

from_row! {
    struct KnownRow {
        ..key: KeyRow,
        order_id: String,
        amount: i64,
        currency: String,
    }
}

impl Stored for Known {
    type Row = KnownRow;
    const TABLE: &'static str = Payment::TABLE;
    const KEY: &'static [&'static str] = Payment::KEY;
}

impl TryFrom<KnownRow> for Known {
    type Error = Error;

    fn try_from(row: KnownRow) -> Result<Self, Error> {
        let at = Row {
            table: Self::TABLE,
            id: &row.key.transaction_id,
        };
        let content = Content {
            order_id: at.column("order_id", row.order_id.parse())?,
            amount: at.column("amount", row.amount.try_into())?,
            currency: at.column("currency", row.currency.parse())?,
        };
        let key = row.key.key()?;
        Ok(Self { key, content })
    }
}

from_row! {
    pub(crate) struct PaymentRow {
        ..key: KeyRow,
        event_id: Option<String>,
        order_id: String,
        verdict: String,
        amount: i64,
        currency: String,
        occurred_at: Ts,
        received_at: Ts,
        source: String,
    }
}

impl Stored for Payment {
    type Row = PaymentRow;
    const TABLE: &'static str = "payments";
    const KEY: &'static [&'static str] = &["provider", "transaction_id", "kind"];
}

impl TryFrom<PaymentRow> for Payment {
    type Error = Error;

    fn try_from(row: PaymentRow) -> Result<Self, Error> {
        let at = Row {
            table: "payments",
            id: &row.key.transaction_id,
        };
        let event_id = row
            .event_id
            .map(|id| at.column("event_id", id.parse()))
            .transpose()?;
        Ok(Self {
            key: row.key.key()?,
            event_id,
            content: Content {
                order_id: at.column("order_id", row.order_id.parse())?,
                amount: at.column("amount", row.amount.try_into())?,
                currency: at.column("currency", row.currency.parse())?,
            },
            verdict: recorded(at, &row.verdict)?,
            occurred_at: row.occurred_at.0,
            received_at: row.received_at.0,
            source: at.column("source", row.source.parse())?,
        })
    }
}

/// A verdict that payments are stored with; others leave no payment behind.
fn recorded(at: Row<'_>, text: &str) -> Result<Verdict, Error> {
    let verdict: Verdict = at.column("verdict", text.parse())?;
    if verdict.is_recorded() {
        Ok(verdict)
    } else {
        Err(at.wrong("verdict", "payments are never recorded with this verdict"))
    }
}
