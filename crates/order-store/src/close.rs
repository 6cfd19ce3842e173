//! A person closes an exception; accepting a mismatch pays the order with it.

use order_fsm::{Decision, OrderEvent, OrderId, PaymentKey, Transition, Verdict, decide};

use crate::error::{Error, doing};
use crate::orders::{self, Order};
use crate::payments;
use crate::rows::{Checked, Row, from_row};
use crate::run::{execute, fetch_all};
use crate::source::Source;
use crate::sql;
use crate::store::Store;
use crate::transitions::{self, Advanced, NewRefusal, NewTransition};
use crate::tx::Tx;
use crate::words::words;

words! {
    /// How a person closes an exception.
    pub enum Resolution, "refunded, accepted or written_off" {
        /// The money went back.
        Refunded = "refunded",
        /// It is as it should be; a mismatch pays its order.
        Accepted = "accepted",
        /// Nothing will be done about it.
        WrittenOff = "written_off",
    }
}

/// How the service itself closes an exception: its payment found its order.
pub(crate) const SETTLED: &str = "settled";

/// The closing of an exception.
#[derive(Debug, Clone)]
pub struct Closing {
    /// Which exception.
    pub id: String,
    /// How.
    pub resolution: Resolution,
    /// The person's reason.
    pub note: String,
    /// The actor who closes it.
    pub actor: String,
    /// The reason a refusal gets in the history: the name of the answer the caller gets.
    pub refused_as: &'static str,
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// It is closed now.
    Closed,
    /// It was closed before, the same way with the same note.
    AlreadyThere,
    /// It was closed before in another way.
    ClosedOtherwise,
    /// Nothing that can be accepted: content that conflicts, other money, or no order yet.
    NotAcceptable(Verdict),
    /// The order can't be paid any more; the exception stays open.
    OrderMoved(Box<Order>),
    /// The exception doesn't exist.
    Missing,
}

impl Store {
    /// Closes an exception.
    pub async fn close_exception(&self, closing: Closing) -> Result<Closed, Error> {
        self.write("closing", closing, close).await
    }
}

/// Locks payment, order and exception, in this order, then looks at each in a new statement.
async fn close(tx: &mut Tx, closing: &Closing) -> Result<Closed, Error> {
    let Some(found) = read(tx, &closing.id).await? else {
        return Ok(Closed::Missing);
    };
    lock_payment(tx, &found.key).await?;
    let order = orders::lock(tx, &[found.order_id.as_str()]).await?.pop();
    match lock(tx, &closing.id).await? {
        None => return Ok(Closed::Missing),
        Some(was) if was.state == "open" => {}
        Some(was) => {
            let same = was.resolution.as_deref() == Some(closing.resolution.as_str())
                && was.note.as_deref() == Some(closing.note.as_str());
            return Ok(if same {
                Closed::AlreadyThere
            } else {
                Closed::ClosedOtherwise
            });
        }
    }
    if closing.resolution == Resolution::Accepted {
        match found.verdict {
            Verdict::ConflictingContent | Verdict::NotLive | Verdict::WaitingForOrder => {
                return Ok(Closed::NotAcceptable(found.verdict));
            }
            Verdict::AmountMismatch | Verdict::CurrencyMismatch => {
                let Some(order) = order else {
                    return Ok(Closed::NotAcceptable(found.verdict));
                };
                if !accept(tx, &found, &order, closing).await? {
                    return Ok(Closed::OrderMoved(Box::new(order)));
                }
            }
            Verdict::Duplicate
            | Verdict::AttemptFailed
            | Verdict::Reversed
            | Verdict::Unsupported
            | Verdict::SecondPayment
            | Verdict::PaidAfterCancel
            | Verdict::Applied => {}
        }
    }
    write(tx, closing).await?;
    Ok(Closed::Closed)
}

/// Pays the order with a payment of another amount or currency; `false` leaves a refusal.
async fn accept(
    tx: &mut Tx,
    found: &Found,
    order: &Order,
    closing: &Closing,
) -> Result<bool, Error> {
    let Decision::Advance(step) = decide(order.status, OrderEvent::Pay) else {
        let refusal = NewRefusal {
            order_id: order.order_id.as_str(),
            version: order.version,
            event: OrderEvent::Pay,
            reason: closing.refused_as,
            payment: Some((&found.key).into()),
            source: Source::Api,
            actor: &closing.actor,
        };
        transitions::refuse(tx, &[refusal]).await?;
        return Ok(false);
    };
    let advanced = advance(tx, order, step, &found.key).await?;
    let rewritten =
        payments::set_verdicts(tx, &[(&found.key, Verdict::Applied)], found.verdict).await?;
    if rewritten != 1 {
        return Err(Error::Raced("accepting a payment"));
    }
    let transition = NewTransition {
        actor: &closing.actor,
        reason: Some(&closing.note),
        payment: Some((&found.key).into()),
        ..NewTransition::step(OrderEvent::Pay, &advanced, order.price())
    };
    transitions::insert(tx, &[transition]).await?;
    Ok(true)
}

async fn advance(
    tx: &mut Tx,
    order: &Order,
    step: Transition,
    key: &PaymentKey,
) -> Result<Advanced, Error> {
    let now = tx.now();
    let rows = fetch_all!(
        tx.conn(),
        Checked<Advanced>,
        sql::orders::ACCEPT,
        order.order_id.as_str(),
        step.from.as_str(),
        step.to.as_str(),
        now,
        key.provider.as_str(),
        key.transaction_id.as_str(),
    )
    .map_err(doing("paying an order with an accepted payment"))?;
    tx.only(rows)?
        .ok_or(Error::Raced("advancing a locked order"))
}

struct Found {
    verdict: Verdict,
    order_id: OrderId,
    key: PaymentKey,
}

async fn read(tx: &mut Tx, id: &str) -> Result<Option<Found>, Error> {
    type KeyRow = (String, String, String, String, String);
    let rows = fetch_all!(tx.conn(), KeyRow, sql::exceptions::KEY, id)
        .map_err(doing("reading an exception"))?;
    let Some((verdict, order_id, provider, transaction_id, kind)) = rows.into_iter().next() else {
        return Ok(None);
    };
    let at = Row {
        table: "payment_exceptions",
        id,
    };
    Ok(Some(Found {
        verdict: at.column("verdict", verdict.parse())?,
        order_id: at.column("order_id", order_id.parse())?,
        key: PaymentKey {
            provider: at.column("provider", provider.parse())?,
            transaction_id: at.column("transaction_id", transaction_id.parse())?,
            kind: at.column("kind", kind.parse())?,
        },
    }))
}

async fn lock_payment(tx: &mut Tx, key: &PaymentKey) -> Result<(), Error> {
    fetch_all!(
        tx.conn(),
        (String,),
        sql::payments::LOCK,
        key.provider.as_str(),
        key.transaction_id.as_str(),
        key.kind.as_str(),
    )
    .map(drop)
    .map_err(doing("locking a payment"))
}

from_row! {
    struct Lock {
        state: String,
        resolution: Option<String>,
        note: Option<String>,
    }
}

async fn lock(tx: &mut Tx, id: &str) -> Result<Option<Lock>, Error> {
    let rows = fetch_all!(tx.conn(), Lock, sql::exceptions::LOCK, id)
        .map_err(doing("locking an exception"))?;
    Ok(rows.into_iter().next())
}

async fn write(tx: &mut Tx, closing: &Closing) -> Result<(), Error> {
    let now = tx.now();
    let closed = execute!(
        tx.conn(),
        sql::exceptions::CLOSE,
        closing.id.as_str(),
        closing.resolution.as_str(),
        closing.note.as_str(),
        closing.actor.as_str(),
        now,
    );
    if closed.map_err(doing("closing an exception"))? == 1 {
        Ok(())
    } else {
        Err(Error::Raced("closing a locked exception"))
    }
}
