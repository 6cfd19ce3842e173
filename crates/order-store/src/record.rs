//! The heart: a batch of payment facts becomes rows in one transaction.
//!
//! Lock order everywhere: payments, orders, exceptions; inside each by key.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use order_fsm::{Content, PaymentKey, Verdict};

use crate::claim::Claim;
use crate::crash;
use crate::dead_letters::{self, NewDeadLetter};
use crate::error::{Error, HeldFact};
use crate::exceptions::{self, Expected, NewException};
use crate::orders;
use crate::pay::pay;
use crate::payments::{self, NewPayment, PaymentFact};
use crate::store::Store;
use crate::tx::Tx;

/// What one transaction records: facts in delivery order, and messages that weren't understood.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The facts.
    pub facts: Vec<PaymentFact>,
    /// The dead letters.
    pub dead_letters: Vec<NewDeadLetter>,
}

/// What became of a fact: its verdict, or why it can't be judged now. Nothing is written about such a fact.
pub type Recorded = Result<Verdict, Arc<Error>>;

impl Store {
    /// Records a batch in one transaction and returns a verdict per fact, in order. When this
    /// returns, everything is committed: then messages are acked, and not before.
    ///
    /// Recording the same batch again is safe: every fact is then a `DUPLICATE`.
    ///
    /// # Errors
    /// After an error nothing is committed, unless it is [`Error::CommitUnknown`] or
    /// [`Error::Deadline`]: then it may be, and recording the same batch again finds out.
    pub async fn record_payments(&self, batch: Batch) -> Result<Vec<Verdict>, Error> {
        self.record_unless(false, batch).await
    }

    /// Records a batch like [`Self::record_payments`], but an order or a payment that can't be read, or an order that
    /// stays locked by another transaction, holds back only the facts that meet it: the others are committed.
    ///
    /// # Errors
    /// As for [`Self::record_payments`].
    pub async fn record_each(&self, batch: Batch) -> Result<Vec<Recorded>, Error> {
        self.record_each_unless(false, batch).await
    }

    /// The same; a dry run is rolled back, and returns what would be recorded.
    pub(crate) async fn record_each_unless(
        &self,
        dry_run: bool,
        batch: Batch,
    ) -> Result<Vec<Recorded>, Error> {
        let mut held: Vec<Option<Arc<Error>>> = vec![None; batch.facts.len()];
        let mut left = Arc::new(batch);
        let mut places: Vec<usize> = (0..held.len()).collect();
        let verdicts = loop {
            match self.record_once(dry_run, left.clone()).await {
                Err(Error::HeldBack(facts)) => {
                    for fact in facts {
                        held[places[fact.index]] = Some(fact.error);
                    }
                }
                Err(error) if error.is_lock_timeout() => {
                    let locked = self.locked_orders(&left).await;
                    let error = Arc::new(error);
                    let mut any = false;
                    for (fact, &place) in left.facts.iter().zip(&places) {
                        if locked.contains(fact.content.order_id.as_str()) {
                            held[place] = Some(error.clone());
                            any = true;
                        }
                    }
                    if !any {
                        return Err(Arc::into_inner(error).unwrap_or(Error::Raced("a lock")));
                    }
                }
                done => break done?,
            }
            // Rolled back; what can't be judged now is left out the next time.
            left = Arc::new(left.without(|index| held[places[index]].is_some()));
            places.retain(|&place| held[place].is_none());
            if left.is_empty() {
                break Vec::new();
            }
        };
        let mut verdicts = verdicts.into_iter();
        held.into_iter()
            .map(|held| match held {
                Some(error) => Ok(Err(error)),
                None => verdicts
                    .next()
                    .map(Ok)
                    .ok_or(Error::Raced("recording every fact")),
            })
            .collect()
    }

    /// The orders of a batch that other transactions keep locked; empty if that can't be found out.
    async fn locked_orders(&self, batch: &Batch) -> HashSet<String> {
        let ids: BTreeSet<String> = batch
            .facts
            .iter()
            .map(|fact| fact.content.order_id.to_string())
            .collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let found = self.write("looking for locks", (ids,), orders::locked);
        found.await.unwrap_or_default()
    }

    /// Records a batch; a dry run is rolled back, and returns the verdicts that it would give.
    pub(crate) async fn record_unless(
        &self,
        dry_run: bool,
        batch: Batch,
    ) -> Result<Vec<Verdict>, Error> {
        let recorded = self.record_once(dry_run, Arc::new(batch)).await;
        recorded.map_err(Error::or_first_held)
    }

    async fn record_once(&self, dry_run: bool, batch: Arc<Batch>) -> Result<Vec<Verdict>, Error> {
        let verdicts = match self
            .transact_batch(dry_run, &batch, self.options.fast_advance)
            .await
        {
            // A row that an update met before it was read: read first, it is found.
            Err(error) if self.options.fast_advance && error.may_be_a_row() => {
                self.transact_batch(dry_run, &batch, false).await?
            }
            done => done?,
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

    async fn transact_batch(
        &self,
        dry_run: bool,
        batch: &Arc<Batch>,
        fast: bool,
    ) -> Result<Vec<Verdict>, Error> {
        let args = (batch.clone(), self.options.livemode, fast);
        self.write_unless(dry_run, "recording", args, record_batch)
            .await
    }
}

async fn record_batch(
    tx: &mut Tx,
    (batch, livemode, fast): &(Arc<Batch>, bool, bool),
) -> Result<Vec<Verdict>, Error> {
    record(tx, batch, *livemode, *fast).await
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.dead_letters.is_empty()
    }

    /// The batch without some of its facts.
    fn without(&self, left_out: impl Fn(usize) -> bool) -> Self {
        let facts = self.facts.iter().enumerate();
        Self {
            facts: facts
                .filter(|(index, _)| !left_out(*index))
                .map(|(_, fact)| fact.clone())
                .collect(),
            dead_letters: self.dead_letters.clone(),
        }
    }
}

/// Records a batch; see the module. Facts that can't be judged, because a row can't be read, are named in
/// [`Error::HeldBack`]: the transaction has to be rolled back.
pub(crate) async fn record(
    tx: &mut Tx,
    batch: &Batch,
    livemode: bool,
    fast: bool,
) -> Result<Vec<Verdict>, Error> {
    let facts = &batch.facts;
    let mut verdicts: Vec<Option<Verdict>> = facts
        .iter()
        .map(|fact| (fact.livemode != livemode).then_some(Verdict::NotLive))
        .collect();

    let leaders = leaders(facts, &verdicts);
    let claimed = claim(tx, facts, &leaders).await?;
    crash::point("recording:claimed");
    let (known, unreadable) = known(tx, facts, &leaders, &claimed).await?;
    let mut held = held_by_payments(facts, &leaders, &claimed, unreadable);

    for (index, fact) in facts.iter().enumerate() {
        if verdicts[index].is_some() {
            continue;
        }
        let leader = leaders[&fact.key];
        if held.contains_key(&leader) {
            continue;
        }
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
        .filter(|&index| verdicts[index].is_none() && claimed.contains(&index))
        .collect();
    let claims: Vec<Claim<'_>> = successes
        .iter()
        .map(|&index| Claim::from(&facts[index]))
        .collect();
    match pay(tx, &claims, Verdict::Applied, fast).await {
        Ok(judged) => {
            for (&index, verdict) in successes.iter().zip(judged) {
                verdicts[index] = Some(verdict);
            }
        }
        Err(Error::HeldBack(rows)) => {
            held.extend(
                rows.into_iter()
                    .map(|row| (successes[row.index], row.error)),
            );
        }
        Err(error) => return Err(error),
    }
    if !held.is_empty() {
        return Err(held_back(facts, livemode, &leaders, &held));
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

/// The leaders whose recorded payment can't be read.
fn held_by_payments(
    facts: &[PaymentFact],
    leaders: &HashMap<&PaymentKey, usize>,
    claimed: &HashSet<usize>,
    unreadable: Vec<Error>,
) -> HashMap<usize, Arc<Error>> {
    let unreadable: Vec<Arc<Error>> = unreadable.into_iter().map(Arc::new).collect();
    if unreadable.is_empty() {
        return HashMap::new();
    }
    let unclaimed = leaders.values().filter(|leader| !claimed.contains(leader));
    unclaimed
        .filter_map(|&leader| {
            let name = payments::row_name(&facts[leader].key);
            let error = unreadable.iter().find(|error| error.is_about(&name))?;
            Some((leader, error.clone()))
        })
        .collect()
}

/// Names the facts that are held back; with a leader, all other facts about its payment.
fn held_back(
    facts: &[PaymentFact],
    livemode: bool,
    leaders: &HashMap<&PaymentKey, usize>,
    held: &HashMap<usize, Arc<Error>>,
) -> Error {
    let ours = facts
        .iter()
        .enumerate()
        .filter(|(_, fact)| fact.livemode == livemode);
    let held = ours.filter_map(|(index, fact)| {
        let leader = leaders.get(&fact.key)?;
        let error = held.get(leader)?;
        Some(HeldFact {
            index,
            order_id: fact.content.order_id.clone(),
            error: error.clone(),
        })
    });
    Error::HeldBack(held.collect())
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
    let new = sorted.iter().map(|&index| NewPayment {
        fact: &facts[index],
        verdict: facts[index].key.kind.verdict().unwrap_or(Verdict::Applied),
    });
    let rows: Vec<NewPayment<'_>> = new.collect();
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
) -> Result<(HashMap<PaymentKey, Content>, Vec<Error>), Error> {
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

/// Opens the exceptions that need no order; those of judged successes are open already.
async fn open_exceptions(
    tx: &mut Tx,
    facts: &[PaymentFact],
    verdicts: &[Verdict],
    known: &HashMap<PaymentKey, Content>,
    leaders: &HashMap<&PaymentKey, usize>,
) -> Result<(), Error> {
    let opened = facts
        .iter()
        .zip(verdicts)
        .filter(|(fact, verdict)| !verdict.is_refusal() && verdict.opens_exception(&fact.key.kind))
        .map(|(fact, verdict)| {
            let recorded = (*verdict == Verdict::ConflictingContent).then(|| {
                known
                    .get(&fact.key)
                    .unwrap_or_else(|| &facts[leaders[&fact.key]].content)
            });
            let expected = recorded.map_or_else(Expected::nothing, Expected::recorded);
            NewException::new(*verdict, fact.into(), expected)
        });
    exceptions::open(tx, opened.collect()).await?;
    Ok(())
}
