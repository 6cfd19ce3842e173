//! Claimed successes meet their orders: the advance, and what is judged under a lock.
//!
//! Used for payments that were just claimed and for those that waited; both come in with the
//! verdict they are stored with so far, and leave with the one they have now.

use std::collections::HashMap;

use order_fsm::{
    Content, EventId, Fact, OrderEvent, OrderStatus, PaymentKey, PaymentKind, Transition, Verdict,
    judge,
};

use crate::conn::{Conn, Tx};
use crate::crash;
use crate::error::{Error, doing};
use crate::exceptions::{self, Expected};
use crate::orders::{self, Order};
use crate::payments::Payment;
use crate::transitions::{self, Advanced, NewRefusal, NewTransition};
use crate::ts::Ts;
use crate::{SELF_ACTOR, Source, payments, sql};

/// A success that this transaction owns: nobody else can judge it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) key: &'a PaymentKey,
    pub(crate) event_id: Option<&'a EventId>,
    pub(crate) content: &'a Content,
    pub(crate) occurred_at: Ts,
    pub(crate) source: Source,
}

/// A payment as a history names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaymentRef<'a> {
    pub(crate) provider: &'a str,
    pub(crate) transaction_id: &'a str,
}

impl<'a> From<&'a PaymentKey> for PaymentRef<'a> {
    fn from(key: &'a PaymentKey) -> Self {
        Self {
            provider: key.provider.as_str(),
            transaction_id: key.transaction_id.as_str(),
        }
    }
}

/// A recorded payment, owned by who locked it.
impl<'a> From<&'a Payment> for Claim<'a> {
    fn from(payment: &'a Payment) -> Self {
        Self {
            key: &payment.key,
            event_id: payment.event_id.as_ref(),
            content: &payment.content,
            occurred_at: Ts(payment.occurred_at),
            source: payment.source,
        }
    }
}

impl Claim<'_> {
    fn order_id(&self) -> &str {
        self.content.order_id.as_str()
    }
}

/// Judges claims in the given order and carries out what follows; one verdict per claim.
///
/// `stored` is the verdict the payments are recorded with so far. With `fast`, orders with a
/// single claim are first advanced without a lock: the guard of the update decides, and whatever
/// it leaves is judged like the rest.
pub(crate) async fn pay(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    stored: Verdict,
    fast: bool,
) -> Result<Vec<Verdict>, Error> {
    let mut verdicts: Vec<Option<Verdict>> = vec![None; claims.len()];
    let mut steps: Vec<(usize, Advanced)> = Vec::new();

    if fast {
        for (index, advanced) in advance(tx, claims, &alone(claims)).await? {
            verdicts[index] = Some(Verdict::Applied);
            steps.push((index, advanced));
        }
    }

    let rest: Vec<usize> = (0..claims.len())
        .filter(|&index| verdicts[index].is_none())
        .collect();
    let mut met = Met::default();
    if !rest.is_empty() {
        judge_locked(tx, claims, &rest, &mut verdicts, &mut met).await?;
        let applied: Vec<usize> = rest
            .iter()
            .copied()
            .filter(|&index| verdicts[index] == Some(Verdict::Applied))
            .collect();
        let advanced = advance(tx, claims, &applied).await?;
        // Under the lock the guard can't fail; if it did, nothing of this is written.
        if advanced.len() != applied.len() {
            return Err(Error::Raced("advancing locked orders"));
        }
        steps.extend(advanced);
    }

    let verdicts = verdicts
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or(Error::Raced("judging every claim"))?;
    crash::point("paying:advanced");
    write_verdicts(tx, claims, &verdicts, stored).await?;
    crash::point("paying:verdicts-written");
    write_steps(tx, claims, &steps).await?;
    write_refusals(tx, claims, &verdicts, &met).await?;
    Ok(verdicts)
}

/// The claims whose order no other claim is for.
fn alone(claims: &[Claim<'_>]) -> Vec<usize> {
    let mut count: HashMap<&str, u32> = HashMap::with_capacity(claims.len());
    for claim in claims {
        *count.entry(claim.order_id()).or_default() += 1;
    }
    (0..claims.len())
        .filter(|&index| count[claims[index].order_id()] == 1)
        .collect()
}

/// The guarded update, for at most one claim per order; returns the claims it moved.
async fn advance(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    chosen: &[usize],
) -> Result<Vec<(usize, Advanced)>, Error> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    // Sorted, so that concurrent batches meet their orders in one order.
    let mut chosen = chosen.to_vec();
    chosen.sort_unstable_by_key(|&index| claims[index].order_id());
    let Transition { from, to } = Transition::of(OrderEvent::Pay);
    let now = tx.now();
    let rows = match tx.conn() {
        Conn::Postgres(c) => {
            let column = |f: fn(&Claim<'_>) -> String| -> Vec<String> {
                chosen.iter().map(|&index| f(&claims[index])).collect()
            };
            sqlx::query_as::<_, Advanced>(sql::ORDERS_PAY.postgres)
                .bind(column(|claim| claim.order_id().to_owned()))
                .bind(column(|claim| claim.key.provider.to_string()))
                .bind(column(|claim| claim.key.transaction_id.to_string()))
                .bind(
                    chosen
                        .iter()
                        .map(|&index| claims[index].content.amount.minor_units())
                        .collect::<Vec<_>>(),
                )
                .bind(column(|claim| claim.content.currency.to_string()))
                .bind(from.as_str())
                .bind(to.as_str())
                .bind(now)
                .fetch_all(&mut **c)
                .await
        }
        Conn::Sqlite(c) => {
            let json: Vec<serde_json::Value> = chosen
                .iter()
                .map(|&index| {
                    let claim = &claims[index];
                    serde_json::json!([
                        claim.order_id(),
                        claim.key.provider.as_str(),
                        claim.key.transaction_id.as_str(),
                        claim.content.amount.minor_units(),
                        claim.content.currency.as_str(),
                    ])
                })
                .collect();
            sqlx::query_as::<_, Advanced>(sql::ORDERS_PAY.sqlite)
                .bind(serde_json::Value::from(json).to_string())
                .bind(from.as_str())
                .bind(to.as_str())
                .bind(now)
                .fetch_all(&mut **c)
                .await
        }
    };
    let by_order: HashMap<&str, usize> = chosen
        .iter()
        .map(|&index| (claims[index].order_id(), index))
        .collect();
    rows.map_err(doing("advancing orders"))?
        .into_iter()
        .map(|row| {
            let index = by_order.get(row.order_id.as_str()).copied();
            index
                .map(|index| (index, row))
                .ok_or(Error::Raced("matching advanced orders"))
        })
        .collect()
}

/// The orders as the judged claims met them.
#[derive(Default)]
struct Met(HashMap<usize, Order>);

/// Locks the orders of the rest, then judges claim after claim on a copy of them.
async fn judge_locked(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    rest: &[usize],
    verdicts: &mut [Option<Verdict>],
    met: &mut Met,
) -> Result<(), Error> {
    let mut ids: Vec<&str> = rest.iter().map(|&index| claims[index].order_id()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut copies: HashMap<String, Order> = orders::lock(tx, &ids)
        .await?
        .into_iter()
        .map(|order| (order.order_id.to_string(), order))
        .collect();
    for &index in rest {
        let claim = &claims[index];
        let order = copies.get_mut(claim.order_id());
        let fact = Fact {
            kind: PaymentKind::Succeeded,
            livemode: true,
            content: claim.content.clone(),
        };
        // The claim is what makes it new and of this mode: both were decided before.
        let verdict = judge(
            true,
            None,
            order.as_deref().map(Order::facts).as_ref(),
            &fact,
        );
        verdicts[index] = Some(verdict);
        if let Some(order) = order {
            met.0.insert(index, order.clone());
            if verdict == Verdict::Applied {
                order.status = OrderStatus::Paid;
                order.version += 1;
            }
        }
    }
    Ok(())
}

async fn write_verdicts(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    verdicts: &[Verdict],
    stored: Verdict,
) -> Result<(), Error> {
    let changed: Vec<(&PaymentKey, Verdict)> = claims
        .iter()
        .zip(verdicts)
        .filter(|(_, verdict)| **verdict != stored)
        .map(|(claim, verdict)| (claim.key, *verdict))
        .collect();
    let written = payments::judge(tx, &changed, stored).await?;
    // Claimed = advanced + rewritten: no claim is left with a verdict it didn't get.
    if written == changed.len() as u64 {
        Ok(())
    } else {
        Err(Error::Raced("writing verdicts"))
    }
}

async fn write_steps(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    steps: &[(usize, Advanced)],
) -> Result<(), Error> {
    let rows: Vec<NewTransition<'_>> = steps
        .iter()
        .map(|(index, advanced)| NewTransition {
            source: claims[*index].source,
            actor: SELF_ACTOR,
            payment: Some(claims[*index].key.into()),
            ..NewTransition::step(OrderEvent::Pay, advanced)
        })
        .collect();
    transitions::insert(tx, &rows).await
}

async fn write_refusals(
    tx: &mut Tx,
    claims: &[Claim<'_>],
    verdicts: &[Verdict],
    met: &Met,
) -> Result<(), Error> {
    for (index, (claim, verdict)) in claims.iter().zip(verdicts).enumerate() {
        let Some(order) = met.0.get(&index).filter(|_| verdict.is_refusal()) else {
            continue;
        };
        let expected = Expected::order(order);
        exceptions::open(tx, *verdict, claim, &expected).await?;
        let refusal = NewRefusal {
            order_id: claim.order_id(),
            version: order.version,
            event: OrderEvent::Pay,
            reason: verdict.as_str(),
            payment: Some(claim.key.into()),
            source: claim.source,
            actor: SELF_ACTOR,
        };
        transitions::refuse(tx, &refusal).await?;
    }
    Ok(())
}
