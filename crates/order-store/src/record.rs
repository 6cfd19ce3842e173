//! The heart: a batch of payment facts becomes rows in one transaction.
//!
//! Lock order everywhere: payments, orders, exceptions; inside each by key.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use order_fsm::{Content, EventId, PaymentKey, Verdict};
use time::OffsetDateTime;

use crate::Source;
use crate::conn::Tx;
use crate::crash;
use crate::dead_letters::{self, NewDeadLetter};
use crate::error::Error;
use crate::exceptions::{self, Expected, exception_id};
use crate::pay::{Claim, pay};
use crate::payments;
use crate::store::{Store, StoreOptions};
use crate::ts::Ts;

/// What a message or an answer says about a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentFact {
    /// Which payment.
    pub key: PaymentKey,
    /// The label of the message.
    pub event_id: Option<EventId>,
    /// For which order, how much.
    pub content: Content,
    /// When it happened, as told.
    pub occurred_at: OffsetDateTime,
    /// Whether real money moved.
    pub livemode: bool,
    /// Which way it came in.
    pub source: Source,
}

/// What one transaction records: facts in delivery order, and messages nobody understood.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The facts.
    pub facts: Vec<PaymentFact>,
    /// The dead letters.
    pub dead_letters: Vec<NewDeadLetter>,
}

impl Store {
    /// Records a batch in one transaction and returns a verdict per fact, in order. When this
    /// returns, everything is committed: then messages are acked, and not before.
    ///
    /// Telling the same batch again is safe: every fact is then a `DUPLICATE`.
    ///
    /// # Errors
    /// After an error nothing is committed, unless it is [`Error::CommitUnknown`] or
    /// [`Error::Deadline`]: then it may be, and telling the same batch again finds out.
    pub async fn record_payments(&self, batch: Batch) -> Result<Vec<Verdict>, Error> {
        self.record_unless(false, batch).await
    }

    /// Records a batch; a dry run is rolled back, and its verdicts say what would be.
    pub(crate) async fn record_unless(
        &self,
        dry_run: bool,
        batch: Batch,
    ) -> Result<Vec<Verdict>, Error> {
        let batch = Arc::new(batch);
        let options = self.options.clone();
        let verdicts = {
            let batch = batch.clone();
            self.write_unless(dry_run, "recording", move |tx| {
                let (batch, options) = (batch.clone(), options.clone());
                Box::pin(async move { record(tx, &batch, &options).await })
            })
            .await?
        };
        if dry_run {
            return Ok(verdicts);
        }
        crash::point("recording:before-settling");
        // An order that was created meanwhile did not see these; of two that miss each other,
        // the later committer sees the other.
        let waiting: BTreeSet<_> = batch
            .facts
            .iter()
            .zip(&verdicts)
            .filter(|(_, verdict)| **verdict == Verdict::WaitingForOrder)
            .map(|(fact, _)| fact.content.order_id.clone())
            .collect();
        self.settle_after_commit(waiting.into_iter().collect())
            .await;
        Ok(verdicts)
    }
}

/// Records a batch; see the module.
pub(crate) async fn record(
    tx: &mut Tx,
    batch: &Batch,
    options: &StoreOptions,
) -> Result<Vec<Verdict>, Error> {
    let facts = &batch.facts;
    let mut verdicts: Vec<Option<Verdict>> = facts
        .iter()
        .map(|fact| (fact.livemode != options.livemode).then_some(Verdict::NotLive))
        .collect();

    let leaders = leaders(facts, &verdicts);
    let claimed = claim(tx, facts, &leaders).await?;
    crash::point("recording:claimed");
    let known = known(tx, facts, &leaders, &claimed).await?;

    for (index, fact) in facts.iter().enumerate() {
        if verdicts[index].is_some() {
            continue;
        }
        let leader = leaders[&fact.key];
        verdicts[index] = if claimed.contains(&leader) {
            if index == leader {
                // A success is judged below.
                fact.key.kind.verdict()
            } else {
                Some(again(fact, &facts[leader].content))
            }
        } else {
            let recorded = known
                .get(&fact.key)
                .ok_or(Error::Raced("reading known payments"))?;
            Some(again(fact, recorded))
        };
    }

    let successes: Vec<usize> = (0..facts.len())
        .filter(|&index| verdicts[index].is_none())
        .collect();
    let claims: Vec<Claim<'_>> = successes
        .iter()
        .map(|&index| as_claim(&facts[index]))
        .collect();
    let judged = pay(tx, &claims, Verdict::Applied, options.fast_advance).await?;
    for (&index, verdict) in successes.iter().zip(judged) {
        verdicts[index] = Some(verdict);
    }

    let verdicts = verdicts
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or(Error::Raced("judging every fact"))?;
    crash::point("recording:judged");
    open_exceptions(tx, facts, &verdicts, &known, &leaders).await?;
    dead_letters::insert_all(tx, &batch.dead_letters).await?;
    Ok(verdicts)
}

/// The first fact of every payment of this mode. The same key twice in one INSERT would return
/// one row, and mapped back by key both would look inserted.
fn leaders<'a>(
    facts: &'a [PaymentFact],
    verdicts: &[Option<Verdict>],
) -> HashMap<&'a PaymentKey, usize> {
    let mut leaders = HashMap::with_capacity(facts.len());
    for (index, fact) in facts.iter().enumerate() {
        if verdicts[index].is_none()
            && let Entry::Vacant(vacant) = leaders.entry(&fact.key)
        {
            vacant.insert(index);
        }
    }
    leaders
}

/// Claims the leaders, sorted by key; returns those that are ours.
async fn claim(
    tx: &mut Tx,
    facts: &[PaymentFact],
    leaders: &HashMap<&PaymentKey, usize>,
) -> Result<HashSet<usize>, Error> {
    let mut sorted: Vec<usize> = leaders.values().copied().collect();
    sorted.sort_unstable_by(|&a, &b| facts[a].key.cmp(&facts[b].key));
    let rows: Vec<(&PaymentFact, Verdict)> = sorted
        .iter()
        // Provisional for a success; this transaction rewrites it or none of it is committed.
        .map(|&index| {
            (
                &facts[index],
                facts[index].key.kind.verdict().unwrap_or(Verdict::Applied),
            )
        })
        .collect();
    let claimed = payments::claim(tx, &rows).await?;
    if claimed.len() == sorted.len() {
        return Ok(sorted.into_iter().collect());
    }
    claimed
        .iter()
        .map(|key| {
            leaders
                .get(key)
                .copied()
                .ok_or(Error::Raced("matching claimed payments"))
        })
        .collect()
}

/// The recorded content of the leaders that were not claimed. A new statement: it sees what a
/// rival committed while the claim waited for it.
async fn known(
    tx: &mut Tx,
    facts: &[PaymentFact],
    leaders: &HashMap<&PaymentKey, usize>,
    claimed: &HashSet<usize>,
) -> Result<HashMap<PaymentKey, Content>, Error> {
    let keys: Vec<&PaymentKey> = leaders
        .values()
        .filter(|index| !claimed.contains(index))
        .map(|&index| &facts[index].key)
        .collect();
    payments::known(tx, &keys).await
}

fn again(fact: &PaymentFact, recorded: &Content) -> Verdict {
    if fact.content == *recorded {
        Verdict::Duplicate
    } else {
        Verdict::ConflictingContent
    }
}

fn as_claim(fact: &PaymentFact) -> Claim<'_> {
    Claim {
        key: &fact.key,
        event_id: fact.event_id.as_ref(),
        content: &fact.content,
        occurred_at: Ts::truncated(fact.occurred_at),
        source: fact.source,
    }
}

/// Opens the exceptions that need no order; those of judged successes are open already.
async fn open_exceptions(
    tx: &mut Tx,
    facts: &[PaymentFact],
    verdicts: &[Verdict],
    known: &HashMap<PaymentKey, Content>,
    leaders: &HashMap<&PaymentKey, usize>,
) -> Result<(), Error> {
    let mut opened: Vec<(String, &PaymentFact, Verdict)> = facts
        .iter()
        .zip(verdicts)
        .filter(|(fact, verdict)| !verdict.is_refusal() && verdict.opens_exception(&fact.key.kind))
        .map(|(fact, verdict)| {
            (
                exception_id(*verdict, &fact.key, &fact.content),
                fact,
                *verdict,
            )
        })
        .collect();
    // By key: two batches may open the same ones.
    opened.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, fact, verdict) in opened {
        let recorded = (verdict == Verdict::ConflictingContent).then(|| {
            known
                .get(&fact.key)
                .unwrap_or_else(|| &facts[leaders[&fact.key]].content)
        });
        let expected = recorded.map_or_else(Expected::nothing, Expected::recorded);
        exceptions::open(tx, verdict, &as_claim(fact), &expected).await?;
    }
    Ok(())
}
