//! Writes down what became of events, under the lease.

use std::collections::HashMap;
use std::sync::Arc;

use super::aside;
use super::by_key::by_key;
use super::event::{OutboxEvent, Place};
use super::fate::Fate;
use super::page::OutboxPage;
use crate::error::{Error, doing};
use crate::leases::{self, Lease};
use crate::run::{List, execute};
use crate::sql;
use crate::store::Store;
use crate::ts::Ts;
use crate::tx::Tx;

/// The outcome of writing under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concluded {
    /// It is written.
    Written,
    /// Another holder took the lease, or it was ended: nothing was written.
    LeaseLost,
}

impl Store {
    /// Writes down that all of a page is about to be tried, so that it is known from then on that the broker
    /// may have it.
    pub async fn try_outbox(&self, lease: &Lease, page: &OutboxPage) -> Result<Concluded, Error> {
        self.conclude_outbox(lease, Arc::default(), Vec::new(), Some(page))
            .await
    }

    /// Writes down what became of events, one fate for each, if the lease is still this holder's; renews
    /// it. `next` is the page that is about to be tried.
    pub async fn conclude_outbox(
        &self,
        lease: &Lease,
        events: Arc<Vec<OutboxEvent>>,
        fates: Vec<Fate>,
        next: Option<&OutboxPage>,
    ) -> Result<Concluded, Error> {
        let doing = if events.is_empty() {
            "trying"
        } else {
            "concluding"
        };
        let next = next
            .filter(|page| page.events.iter().any(|event| !event.tried))
            .and_then(|page| page.last);
        self.write(doing, (lease.clone(), events, fates, next), conclude)
            .await
    }
}

async fn conclude(
    tx: &mut Tx,
    (lease, events, fates, next): &(Lease, Arc<Vec<OutboxEvent>>, Vec<Fate>, Option<i64>),
) -> Result<Concluded, Error> {
    by_key(tx).await?;
    if !leases::renew(tx, lease).await? {
        return Ok(Concluded::LeaseLost);
    }
    from_the_outbox(tx, events, fates).await?;
    aside::conclude(tx, events, fates).await?;
    if let Some(seq) = *next {
        execute!(tx.conn(), sql::outbox::SET_PROGRESS, seq)
            .map_err(doing("writing down how far the outbox was tried"))?;
    }
    Ok(Concluded::Written)
}

/// Deletes the rows of which nothing is kept; of the others only what is kept stays.
async fn from_the_outbox(tx: &mut Tx, events: &[OutboxEvent], fates: &[Fate]) -> Result<(), Error> {
    let mut rows: Vec<(i64, Vec<&OutboxEvent>, usize)> = Vec::new();
    let mut row_of: HashMap<i64, usize> = HashMap::new();
    for (event, fate) in events.iter().zip(fates) {
        let Place::Outbox { seq } = event.place else {
            continue;
        };
        let number = *row_of.entry(seq).or_insert_with(|| {
            rows.push((seq, Vec::new(), 0));
            rows.len() - 1
        });
        let (_, kept, all) = &mut rows[number];
        *all += 1;
        if *fate == Fate::Kept {
            kept.push(event);
        }
    }
    let done: Vec<i64> = rows
        .iter()
        .filter(|(_, kept, _)| kept.is_empty())
        .map(|(seq, ..)| *seq)
        .collect();
    delete(tx, &done).await?;
    for (seq, kept, all) in &rows {
        if !kept.is_empty() && kept.len() < *all {
            keep(tx, *seq, kept).await?;
        }
    }
    Ok(())
}

async fn delete(tx: &mut Tx, rows: &[i64]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    execute!(tx.conn(), sql::outbox::DELETE, List(rows))
        .map(drop)
        .map_err(doing("deleting from the outbox"))
}

async fn keep(tx: &mut Tx, seq: i64, kept: &[&OutboxEvent]) -> Result<(), Error> {
    let lines: Vec<&str> = kept.iter().map(|event| event.line.as_str()).collect();
    let content = lines.join("\n");
    let since = kept.iter().map(|event| event.since).min();
    let Some(since) = since else { return Ok(()) };
    let since: Ts = since;
    execute!(
        tx.conn(),
        sql::outbox::KEEP,
        seq,
        since,
        kept.iter().map(|_| 1_i64).sum::<i64>(),
        content.as_str()
    )
    .map(drop)
    .map_err(doing("keeping a part of an outbox row"))
}
