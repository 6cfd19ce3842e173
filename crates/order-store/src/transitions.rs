//! What happened to an order: transitions and refusals.

use order_fsm::{
    Amount, Currency, OrderEvent, OrderId, OrderStatus, Provider, TransactionId, Transition,
};
use time::OffsetDateTime;

use crate::claim::PaymentRef;
use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::moved::Moved;
use crate::page::{self, Listed, Page, Place};
use crate::rows::{Checked, Row, Stored, from_row};
use crate::run::{execute_rows, fetch_all};
use crate::source::Source;
use crate::store::Store;
use crate::ts::{Bound, Ts};
use crate::tx::Tx;
use crate::{outbox, sql};

/// A line of an order's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryItem {
    /// The version it led to, or met.
    pub version: i64,
    /// The status before; absent for the creation and for refusals.
    pub from: Option<OrderStatus>,
    /// The status after; absent for refusals.
    pub to: Option<OrderStatus>,
    /// What happened: `create` or an event.
    pub event: String,
    /// Whether it moved the order.
    pub outcome: Outcome,
    /// Which way it came in.
    pub source: Source,
    /// The actor.
    pub actor: String,
    /// Why, or why not.
    pub reason: Option<String>,
    /// The payment behind it.
    pub provider: Option<Provider>,
    /// The payment behind it.
    pub transaction_id: Option<TransactionId>,
    /// When.
    pub at: OffsetDateTime,
}

/// Whether a line of history moved its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Applied,
    /// It was refused.
    Refused,
}

/// Where a page of history ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCursor {
    /// The item's version.
    pub version: i64,
    /// Whether it was a refusal.
    pub refused: bool,
    /// Its time.
    pub at: OffsetDateTime,
    /// Its event.
    pub event: String,
    /// Its reason, or nothing.
    pub reason: String,
    /// Its provider, or nothing.
    pub provider: String,
    /// Its transaction, or nothing.
    pub transaction_id: String,
}

/// A page of a history.
pub type HistoryPage = Page<HistoryItem, HistoryCursor>;

impl Listed for HistoryItem {
    type Cursor = HistoryCursor;

    fn cursor(&self) -> HistoryCursor {
        HistoryCursor {
            version: self.version,
            refused: self.outcome == Outcome::Refused,
            at: self.at,
            event: self.event.clone(),
            reason: self.reason.clone().unwrap_or_default(),
            provider: self
                .provider
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            transaction_id: self
                .transaction_id
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
        }
    }
}

impl Store {
    /// A page of an order's history, oldest first.
    pub async fn history(
        &self,
        order_id: OrderId,
        from: Place<HistoryCursor>,
        limit: u32,
    ) -> Result<HistoryPage, Error> {
        let read = self.read("reading a history", (order_id, from, limit), history);
        Ok(self.noting(read.await?))
    }
}

async fn history(
    conn: &mut Conn,
    (order_id, from, limit): &(OrderId, Place<HistoryCursor>, u32),
) -> sqlx::Result<(HistoryPage, Vec<Error>)> {
    let after = from.after.as_ref();
    let text = |of: fn(&HistoryCursor) -> &str| after.map_or("", of);
    let rows = fetch_all!(
        conn,
        Checked<HistoryItem>,
        sql::transitions::HISTORY,
        order_id.as_str(),
        after.map_or(i64::MIN, |after| after.version),
        after.map_or(0, |after| i64::from(after.refused)),
        after.map_or(Bound::START, |after| after.at.into()),
        text(|after| &after.event),
        text(|after| &after.reason),
        text(|after| &after.provider),
        text(|after| &after.transaction_id),
        page::fetch(*limit),
        i64::from(from.passed),
    )?;
    Ok(page::page(rows, from, *limit))
}

/// The first line of each history: an order is created without an event.
pub(crate) const CREATION: &str = "create";

/// A transition to be written.
pub(crate) struct NewTransition<'a> {
    pub(crate) order_id: &'a str,
    pub(crate) version: i64,
    pub(crate) from: Option<OrderStatus>,
    pub(crate) to: OrderStatus,
    pub(crate) event: &'static str,
    pub(crate) source: Source,
    pub(crate) actor: &'a str,
    pub(crate) reason: Option<&'a str>,
    pub(crate) payment: Option<PaymentRef<'a>>,
    pub(crate) at: Ts,
    /// The price; part of the published event, not of the history.
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
}

impl<'a> NewTransition<'a> {
    /// A step that the update of an order returned; no step changes what the order costs.
    pub(crate) fn step(
        event: OrderEvent,
        advanced: &'a Advanced,
        (amount, currency): (Amount, Currency),
    ) -> Self {
        let Transition { from, to } = Transition::of(event);
        Self {
            order_id: &advanced.order_id,
            version: advanced.version,
            from: Some(from),
            to,
            event: event.as_str(),
            source: Source::Api,
            actor: "",
            reason: None,
            payment: None,
            at: advanced.updated_at,
            amount,
            currency,
        }
    }
}

/// What a guarded update returns for an order that it moved.
#[derive(Debug, Clone)]
pub(crate) struct Advanced {
    pub(crate) order_id: String,
    pub(crate) version: i64,
    pub(crate) updated_at: Ts,
}

from_row! {
    pub(crate) struct AdvancedRow {
        order_id: String,
        version: i64,
        updated_at: Ts,
    }
}

impl Stored for Advanced {
    type Row = AdvancedRow;
    const TABLE: &'static str = "orders";
    const KEY: &'static [&'static str] = &["order_id"];
}

impl TryFrom<AdvancedRow> for Advanced {
    type Error = Error;

    fn try_from(row: AdvancedRow) -> Result<Self, Error> {
        Ok(Self {
            order_id: row.order_id,
            version: row.version,
            updated_at: row.updated_at,
        })
    }
}

/// Writes transitions. Their key makes a version a fact that happens once.
pub(crate) async fn insert(tx: &mut Tx, rows: &[NewTransition<'_>]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let written = execute_rows!(
        tx.conn(),
        sql::transitions::INSERT,
        rows,
        |t| [
            t.order_id,
            t.version,
            t.from.map(OrderStatus::as_str),
            t.to.as_str(),
            t.event,
            t.source.as_str(),
            t.actor,
            t.reason,
            t.payment.map(|p| p.provider),
            t.payment.map(|p| p.transaction_id),
            t.at,
        ],
        Ts::IN_THE_OUTBOX,
    );
    let written = written.map_err(doing("writing transitions"))?;
    if written != rows.len() as u64 {
        return Err(version_taken(rows));
    }
    tx.moved.extend(rows.iter().map(|row| Moved {
        order_id: row.order_id.to_owned(),
        version: row.version,
    }));
    for row in rows {
        tx.unpublished.push(row.at, outbox::transition_line(row));
    }
    Ok(())
}

/// An order takes each version once, under its lock: if the next version is there already, the order was set back by
/// hand.
fn version_taken(rows: &[NewTransition<'_>]) -> Error {
    let id = match rows {
        [only] => only.order_id.to_owned(),
        rows => format!("one of {} orders", rows.len()),
    };
    Row {
        table: "orders",
        id: &id,
    }
    .wrong("version", "the next version is in the history already")
}

/// A refusal to be written.
pub(crate) struct NewRefusal<'a> {
    pub(crate) order_id: &'a str,
    pub(crate) version: i64,
    pub(crate) event: OrderEvent,
    pub(crate) reason: &'a str,
    pub(crate) payment: Option<PaymentRef<'a>>,
    pub(crate) source: Source,
    pub(crate) actor: &'a str,
}

/// Writes refusals, each once per version met, event, reason and transaction.
pub(crate) async fn refuse(tx: &mut Tx, refusals: &[NewRefusal<'_>]) -> Result<(), Error> {
    if refusals.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    execute_rows!(
        tx.conn(),
        sql::refusals::INSERT,
        refusals,
        |r| [
            r.order_id,
            r.version,
            r.event.as_str(),
            r.reason,
            r.payment.map_or("", |payment| payment.provider),
            r.payment.map_or("", |payment| payment.transaction_id),
            r.source.as_str(),
            r.actor,
        ],
        now,
    )
    .map(drop)
    .map_err(doing("writing refusals"))
}

from_row! {
    pub(crate) struct HistoryRow {
        order_id: String,
        version: i64,
        rank: i64,
        from_status: Option<String>,
        to_status: Option<String>,
        event: String,
        source: String,
        actor: String,
        reason: Option<String>,
        provider: String,
        transaction_id: String,
        at: Ts,
    }
}

impl Stored for HistoryItem {
    type Row = HistoryRow;
    const TABLE: &'static str = TRANSITIONS;
    const KEY: &'static [&'static str] = &["order_id", "version"];

    fn table_of(_: &'static str, number: &dyn Fn(&'static str) -> Option<i64>) -> &'static str {
        table_of(number("rank").unwrap_or_default())
    }
}

/// A line of history comes from one of two tables.
fn table_of(rank: i64) -> &'static str {
    if rank == 0 { TRANSITIONS } else { "refusals" }
}

const TRANSITIONS: &str = "transitions";

impl TryFrom<HistoryRow> for HistoryItem {
    type Error = Error;

    fn try_from(row: HistoryRow) -> Result<Self, Error> {
        let at = Row {
            table: table_of(row.rank),
            id: &row.order_id,
        };
        let status = |column, text: Option<String>| {
            text.map(|text| at.column(column, text.parse())).transpose()
        };
        let provider = Some(row.provider).filter(|text| !text.is_empty());
        let transaction_id = Some(row.transaction_id).filter(|text| !text.is_empty());
        let outcome = if row.rank == 0 {
            Outcome::Applied
        } else {
            Outcome::Refused
        };
        if row.rank == 0 && row.to_status.is_none() {
            return Err(at.wrong("to_status", "no status"));
        }
        Ok(Self {
            version: at.version("version", row.version)?,
            from: status("from_status", row.from_status)?,
            to: status("to_status", row.to_status)?,
            event: event(at, row.event)?,
            outcome,
            source: at.column("source", row.source.parse())?,
            actor: row.actor,
            reason: row.reason,
            provider: provider
                .map(|p| at.column("provider", p.parse()))
                .transpose()?,
            transaction_id: transaction_id
                .map(|t| at.column("transaction_id", t.parse()))
                .transpose()?,
            at: row.at.0,
        })
    }
}

/// A history contains the creation and events only.
fn event(at: Row<'_>, text: String) -> Result<String, Error> {
    let known = OrderEvent::ALL.map(OrderEvent::as_str);
    if text == CREATION || known.contains(&text.as_str()) {
        Ok(text)
    } else {
        Err(at.wrong("event", "isn't an event of an order"))
    }
}
