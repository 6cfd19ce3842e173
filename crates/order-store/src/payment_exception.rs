//! An exception as it is read.

use std::str::FromStr;

use order_fsm::{Amount, Content, Currency, EventId, OrderId, PaymentKey, Verdict};
use time::OffsetDateTime;

use crate::conn::fetch_all;
use crate::error::{Error, doing};
use crate::orders::Row;
use crate::payments;
use crate::sql::ops as sql;
use crate::store::Store;
use crate::ts::Ts;

/// Something about a payment that needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentException {
    /// The digest of what makes it unique.
    pub id: String,
    /// What the payment did.
    pub verdict: Verdict,
    /// Which payment.
    pub key: PaymentKey,
    /// What it says.
    pub content: Content,
    /// The label of its event.
    pub event_id: Option<EventId>,
    /// Which order it should have been for.
    pub expected_order_id: Option<OrderId>,
    /// What should have been paid.
    pub expected_amount: Option<Amount>,
    /// In which currency.
    pub expected_currency: Option<Currency>,
    /// When the payment happened, as told.
    pub occurred_at: OffsetDateTime,
    /// Until when the order should have been paid.
    pub pay_by: Option<OffsetDateTime>,
    /// When it was opened.
    pub opened_at: OffsetDateTime,
    /// How it was closed; open without.
    pub closed: Option<Closure>,
}

/// How an exception was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The contract's word; `settled` if the payment found its order.
    pub resolution: String,
    /// What the person wrote.
    pub note: Option<String>,
    /// Who closed it.
    pub by: Option<String>,
    /// When.
    pub at: OffsetDateTime,
}

/// Whether an exception still needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceptionState {
    /// It does.
    Open,
    /// It was closed, or its payment found its order.
    Closed,
}

impl ExceptionState {
    /// Every state.
    pub const ALL: [Self; 2] = [Self::Open, Self::Closed];

    /// The string on every wire and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A string that names no state of an exception.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be open or closed")]
pub struct UnknownExceptionState;

impl FromStr for ExceptionState {
    type Err = UnknownExceptionState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or(UnknownExceptionState)
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
        self.read(move |conn| {
            Box::pin(async move {
                let rows = fetch_all!(conn, PaymentExceptionRow, sql::EXCEPTION_GET, id.as_str())
                    .map_err(doing("reading an exception"))?;
                rows.into_iter()
                    .next()
                    .map(PaymentException::try_from)
                    .transpose()
            })
        })
        .await
    }

    /// A page of exceptions, oldest first.
    pub async fn list_exceptions(
        &self,
        filter: ExceptionFilter,
        after: Option<ExceptionCursor>,
        limit: u32,
    ) -> Result<Vec<PaymentException>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let start = || ExceptionCursor {
                    opened_at: payments::START,
                    id: String::new(),
                };
                let after = after.unwrap_or_else(start);
                let rows = fetch_all!(
                    conn,
                    PaymentExceptionRow,
                    sql::EXCEPTIONS_LIST,
                    filter.state.map(ExceptionState::as_str),
                    filter.verdict.map(Verdict::as_str),
                    filter.order_id.as_ref().map(OrderId::as_str),
                    Ts(after.opened_at),
                    after.id.as_str(),
                    i64::from(limit),
                )
                .map_err(doing("listing exceptions"))?;
                rows.into_iter().map(PaymentException::try_from).collect()
            })
        })
        .await
    }
}

impl PaymentException {
    /// The place of this exception.
    pub fn cursor(&self) -> ExceptionCursor {
        ExceptionCursor {
            opened_at: self.opened_at,
            id: self.id.clone(),
        }
    }

    /// Whether the money came in time for an order that was cancelled then; nothing for others.
    pub fn in_time(&self) -> Option<bool> {
        self.pay_by
            .filter(|_| self.verdict == Verdict::PaidAfterCancel)
            .map(|pay_by| self.occurred_at <= pay_by)
    }
}

#[derive(sqlx::FromRow)]
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

impl TryFrom<PaymentExceptionRow> for PaymentException {
    type Error = Error;

    fn try_from(row: PaymentExceptionRow) -> Result<Self, Error> {
        let at = Row {
            table: "payment_exceptions",
            id: &row.id,
        };
        let closed = match (row.resolution, row.closed_at) {
            (Some(resolution), Some(closed_at)) => Some(Closure {
                resolution,
                note: row.note,
                by: row.closed_by,
                at: closed_at.0,
            }),
            // The schema has both or none.
            _ => None,
        };
        let expected = |column, text: Option<String>| {
            text.map(|text| at.column(column, text.parse())).transpose()
        };
        let expected_currency = row
            .expected_currency
            .map(|text| at.column("expected_currency", text.parse()))
            .transpose()?;
        Ok(Self {
            verdict: at.column("verdict", row.verdict.parse())?,
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
