//! An exception as it is read.

use order_fsm::{Amount, Content, Currency, EventId, OrderId, PaymentKey, Verdict};
use time::OffsetDateTime;

use crate::close::{Resolution, SETTLED};
use crate::conn::Conn;
use crate::error::Error;
use crate::page::{self, Listed, Page, Place};
use crate::rows::{Checked, Row, Stored, from_row};
use crate::run::fetch_all;
use crate::sql;
use crate::store::Store;
use crate::ts::{Bound, Ts};
use crate::words::words;

/// Something about a payment that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentException {
    /// The digest of what makes it unique.
    pub id: String,
    /// What the payment did.
    pub verdict: Verdict,
    /// Which payment.
    pub key: PaymentKey,
    /// For which order, how much.
    pub content: Content,
    /// The label of its event.
    pub event_id: Option<EventId>,
    /// Which order it should have been for.
    pub expected_order_id: Option<OrderId>,
    /// What should have been paid.
    pub expected_amount: Option<Amount>,
    /// In which currency.
    pub expected_currency: Option<Currency>,
    /// When the payment happened, as reported.
    pub occurred_at: OffsetDateTime,
    /// Until when the order should have been paid.
    pub pay_by: Option<OffsetDateTime>,
    /// When it was opened.
    pub opened_at: OffsetDateTime,
    /// How it was closed; absent while it is open.
    pub closed: Option<Closure>,
}

/// How an exception was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The contract's word; `settled` if the payment found its order.
    pub resolution: String,
    /// What the person wrote.
    pub note: Option<String>,
    /// The actor who closed it.
    pub by: Option<String>,
    /// When.
    pub at: OffsetDateTime,
}

words! {
    /// Whether an exception still needs a person.
    pub enum ExceptionState, "open or closed" {
        /// It does.
        Open = "open",
        /// It was closed, or its payment found its order.
        Closed = "closed",
    }
}

/// Which exceptions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExceptionFilter {
    /// Only in this state.
    pub state: Option<ExceptionState>,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
    /// Only of this order.
    pub order_id: Option<OrderId>,
}

/// Where a page of exceptions ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionCursor {
    /// The exception's time.
    pub opened_at: OffsetDateTime,
    /// Its id.
    pub id: String,
}

impl Store {
    /// An exception.
    pub async fn get_exception(&self, id: String) -> Result<Option<PaymentException>, Error> {
        let rows = self.read("reading an exception", (id,), get);
        self.only(rows.await?)
    }

    /// A page of exceptions, oldest first.
    pub async fn list_exceptions(
        &self,
        filter: ExceptionFilter,
        from: Place<ExceptionCursor>,
        limit: u32,
    ) -> Result<ExceptionPage, Error> {
        let read = self.read("listing exceptions", (filter, from, limit), list);
        Ok(self.noting(read.await?))
    }
}

async fn get(conn: &mut Conn, (id,): &(String,)) -> sqlx::Result<Vec<Checked<PaymentException>>> {
    fetch_all!(conn, Checked<PaymentException>, sql::exceptions::GET, id)
}

async fn list(
    conn: &mut Conn,
    (filter, from, limit): &(ExceptionFilter, Place<ExceptionCursor>, u32),
) -> sqlx::Result<(ExceptionPage, Vec<Error>)> {
    let after = from.after.as_ref();
    let opened_at = after.map_or(Bound::START, |after| after.opened_at.into());
    let id = after.map_or("", |after| after.id.as_str());
    let (limit_and_one, passed) = (page::fetch(*limit), i64::from(from.passed));
    let state = filter.state.map(ExceptionState::as_str);
    let verdict = filter.verdict.map(Verdict::as_str);
    // Each by the index that fits it: one statement for all of them would be planned for none.
    let rows = match (filter.order_id.as_ref(), state, verdict) {
        (Some(order_id), ..) => fetch_all!(
            conn,
            Checked<PaymentException>,
            sql::exceptions::OF_ORDER,
            order_id.as_str(),
            state,
            verdict,
            opened_at,
            id,
            limit_and_one,
            passed,
        ),
        (None, Some(state), Some(verdict)) => fetch_all!(
            conn,
            Checked<PaymentException>,
            sql::exceptions::IN_STATE_OF_VERDICT,
            state,
            verdict,
            opened_at,
            id,
            limit_and_one,
            passed,
        ),
        (None, Some(state), None) => fetch_all!(
            conn,
            Checked<PaymentException>,
            sql::exceptions::IN_STATE,
            state,
            opened_at,
            id,
            limit_and_one,
            passed,
        ),
        (None, None, verdict) => fetch_all!(
            conn,
            Checked<PaymentException>,
            sql::exceptions::LIST,
            verdict,
            opened_at,
            id,
            limit_and_one,
            passed,
        ),
    }?;
    Ok(page::page(rows, from, *limit))
}

/// A page of exceptions.
pub type ExceptionPage = Page<PaymentException, ExceptionCursor>;

impl Listed for PaymentException {
    type Cursor = ExceptionCursor;

    fn cursor(&self) -> ExceptionCursor {
        ExceptionCursor {
            opened_at: self.opened_at,
            id: self.id.clone(),
        }
    }
}

impl PaymentException {
    /// Whether the money came in time for an order that was cancelled then; nothing for others.
    pub fn in_time(&self) -> Option<bool> {
        self.pay_by
            .filter(|_| self.verdict == Verdict::PaidAfterCancel)
            .map(|pay_by| self.occurred_at <= pay_by)
    }
}

from_row! {
    pub(crate) struct PaymentExceptionRow {
        id: String,
        verdict: String,
        order_id: String,
        provider: String,
        transaction_id: String,
        kind: String,
        event_id: Option<String>,
        amount: i64,
        currency: String,
        expected_order_id: Option<String>,
        expected_amount: Option<i64>,
        expected_currency: Option<String>,
        occurred_at: Ts,
        pay_by: Option<Ts>,
        resolution: Option<String>,
        note: Option<String>,
        closed_by: Option<String>,
        opened_at: Ts,
        closed_at: Option<Ts>,
    }
}

from_row! {
    /// An exception with the state that it is listed by.
    pub(crate) struct StatedRow {
        ..exception: PaymentExceptionRow,
        state: String,
    }
}

impl TryFrom<StatedRow> for PaymentException {
    type Error = Error;

    fn try_from(row: StatedRow) -> Result<Self, Error> {
        let id = row.exception.id.clone();
        let at = Row {
            table: "payment_exceptions",
            id: &id,
        };
        let state: ExceptionState = at.column("state", row.state.parse())?;
        let exception = Self::try_from(row.exception)?;
        if (state == ExceptionState::Closed) == exception.closed.is_some() {
            Ok(exception)
        } else {
            Err(at.wrong("state", "it contradicts the columns of the closing"))
        }
    }
}

impl Stored for PaymentException {
    type Row = StatedRow;
    const TABLE: &'static str = "payment_exceptions";
    const KEY: &'static [&'static str] = &["id"];
}

impl TryFrom<PaymentExceptionRow> for PaymentException {
    type Error = Error;

    fn try_from(row: PaymentExceptionRow) -> Result<Self, Error> {
        let at = Row {
            table: "payment_exceptions",
            id: &row.id,
        };
        let closed = match (row.resolution, row.closed_at) {
            (Some(resolution), Some(closed_at)) => Some(Closure {
                resolution: checked_resolution(at, resolution)?,
                note: row.note,
                by: row.closed_by,
                at: closed_at.0,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(at.wrong("closed_at", "missing")),
            (None, Some(_)) => return Err(at.wrong("resolution", "missing")),
        };
        let expected = |column, text: Option<String>| {
            text.map(|text| at.column(column, text.parse())).transpose()
        };
        let expected_currency = row
            .expected_currency
            .map(|text| at.column("expected_currency", text.parse()))
            .transpose()?;
        Ok(Self {
            verdict: exceptional(at, &row.verdict)?,
            key: PaymentKey {
                provider: at.column("provider", row.provider.parse())?,
                transaction_id: at.column("transaction_id", row.transaction_id.parse())?,
                kind: at.column("kind", row.kind.parse())?,
            },
            content: Content {
                order_id: at.column("order_id", row.order_id.parse())?,
                amount: at.column("amount", row.amount.try_into())?,
                currency: at.column("currency", row.currency.parse())?,
            },
            event_id: row
                .event_id
                .map(|text| at.column("event_id", text.parse()))
                .transpose()?,
            expected_order_id: expected("expected_order_id", row.expected_order_id)?,
            expected_amount: row
                .expected_amount
                .map(|amount| at.column("expected_amount", amount.try_into()))
                .transpose()?,
            expected_currency,
            occurred_at: row.occurred_at.0,
            pay_by: row.pay_by.map(|at| at.0),
            opened_at: row.opened_at.0,
            closed,
            id: row.id.clone(),
        })
    }
}

/// A verdict that exceptions are opened for.
fn exceptional(at: Row<'_>, text: &str) -> Result<Verdict, Error> {
    let verdict: Verdict = at.column("verdict", text.parse())?;
    if verdict.can_be_exception() {
        Ok(verdict)
    } else {
        Err(at.wrong("verdict", "exceptions are never opened for this verdict"))
    }
}

/// A resolution of the contract.
fn checked_resolution(at: Row<'_>, resolution: String) -> Result<String, Error> {
    if resolution == SETTLED
        || Resolution::ALL
            .map(Resolution::as_str)
            .contains(&&*resolution)
    {
        Ok(resolution)
    } else {
        Err(at.wrong("resolution", "isn't a way to close an exception"))
    }
}
