//! An exception as it is read.

use order_fsm::{Amount, Content, Currency, EventId, OrderId, PaymentKey, Verdict};
use time::OffsetDateTime;

use crate::error::Error;
use crate::orders::Row;
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

impl PaymentException {
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
