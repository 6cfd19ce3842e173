//! Claimed successes meet their orders: the advance, and what is judged under a lock.
//!
//! Used for payments that were just claimed and for those that waited; both come in with the
//! verdict they are stored with so far, and leave with the one they have now.

use std::collections::HashMap;
use std::sync::Arc;

use order_fsm::{
    Fact, OrderEvent, OrderStatus, PaymentKey, PaymentKind, Transition, Verdict, judge,
};

use crate::claim::Claim;
use crate::crash;
use crate::error::{Error, HeldFact, doing};
use crate::exceptions::{self, Expected, NewException};
use crate::orders::{self, Order};
use crate::rows::Checked;
use crate::run::fetch_rows;
use crate::source::SELF_ACTOR;
use crate::transitions::{self, Advanced, NewRefusal, NewTransition};
use crate::tx::Tx;
use crate::{payments, sql};

/// Judges claims in the given order and carries out what follows; one verdict per claim.
///
/// If an order can't be read, the claims on it are named in [`Error::HeldBack`]: the transaction has to be rolled back
/// and done again without them.
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
    let rows = fetch_rows!(
        tx.conn(),
        Checked<Advanced>,
        sql::orders::PAY,
        chosen,
        |index| [
            claims[*index].order_id(),
            claims[*index].key.provider.as_str(),
            claims[*index].key.transaction_id.as_str(),
            claims[*index].content.amount.minor_units(),
            claims[*index].content.currency.as_str(),
        ],
        from.as_str(),
        to.as_str(),
        now,
    );
    let by_order: HashMap<&str, usize> = chosen
        .iter()
        .map(|&index| (claims[index].order_id(), index))
        .collect();
    rows.map_err(doing("advancing orders"))?
        .into_iter()
        .map(|Checked(row)| {
            let row = row?;
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
    let (orders, unreadable) = orders::lock_each(tx, &ids).await?;
    if !unreadable.is_empty() {
        return Err(held_back(claims, rest, unreadable));
    }
    let mut copies: HashMap<String, Order> = orders
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
                order.version = order.version.saturating_add(1);
            }
        }
    }
    Ok(())
}

/// Names the claims on orders that can't be read.
fn held_back(claims: &[Claim<'_>], rest: &[usize], unreadable: Vec<Error>) -> Error {
    let unreadable: Vec<Arc<Error>> = unreadable.into_iter().map(Arc::new).collect();
    let of = |id: &str| unreadable.iter().find(|error| error.is_about(id)).cloned();
    let held = rest.iter().filter_map(|&index| {
        let order_id = &claims[index].content.order_id;
        Some(HeldFact {
            index,
            order_id: order_id.clone(),
            error: of(order_id.as_str())?,
        })
    });
    let held: Vec<HeldFact> = held.collect();
    // With nothing to leave out, the repetition would never end.
    if held.is_empty() {
        return Error::Raced("finding the claims on unreadable orders");
    }
    Error::HeldBack(held)
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
    let written = payments::set_verdicts(tx, &changed, stored).await?;
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
            ..NewTransition::step(OrderEvent::Pay, advanced, claims[*index].price())
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
    let mut exceptions = Vec::new();
    let mut refusals = Vec::new();
    for (index, (claim, verdict)) in claims.iter().zip(verdicts).enumerate() {
        let Some(order) = met.0.get(&index).filter(|_| verdict.is_refusal()) else {
            continue;
        };
        exceptions.push(NewException::new(*verdict, *claim, Expected::order(order)));
        refusals.push(NewRefusal {
            order_id: claim.order_id(),
            version: order.version,
            event: OrderEvent::Pay,
            reason: verdict.as_str(),
            payment: Some(claim.key.into()),
            source: claim.source,
            actor: SELF_ACTOR,
        });
    }
    exceptions::open(tx, exceptions).await?;
    transitions::refuse(tx, &refusals).await
}
