//! What a person does about a dead letter: replays it, or discards it.

use order_fsm::Verdict;

use crate::dead_letters::{DeadLetter, LetterState, end, lock};
use crate::error::Error;
use crate::payments::PaymentFact;
use crate::record::{Batch, record};
use crate::store::Store;
use crate::tx::Tx;

/// The outcome of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It was recorded like a message and got this verdict.
    Judged(Verdict),
    /// It was replayed or discarded before.
    NotOpen(LetterState),
    /// The letter doesn't exist.
    Missing,
}

/// The outcome of discarding a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discarded {
    /// It is discarded now.
    Discarded(DeadLetter),
    /// It was discarded before, with the same note.
    AlreadyThere(DeadLetter),
    /// It was replayed before, or discarded with another note.
    NotOpen(DeadLetter),
    /// The letter doesn't exist.
    Missing,
}

impl Store {
    /// Records what a dead letter says, in one transaction with the letter's state. With `dry_run` all of it is rolled
    /// back, and only the verdict is left.
    pub async fn replay_dead_letter(
        &self,
        id: String,
        fact: PaymentFact,
        dry_run: bool,
    ) -> Result<Replayed, Error> {
        let order_id = fact.content.order_id.clone();
        let batch = Batch {
            facts: vec![fact],
            dead_letters: Vec::new(),
        };
        let options = &self.options;
        let args = (id, batch, options.livemode, options.fast_advance);
        let replayed = self
            .write_unless(dry_run, "replaying", args, replay)
            .await?;
        if !dry_run && replayed == Replayed::Judged(Verdict::WaitingForOrder) {
            self.settle_after_commit(vec![order_id]).await;
        }
        Ok(replayed)
    }

    /// Gives a dead letter up.
    pub async fn discard_dead_letter(&self, id: String, note: String) -> Result<Discarded, Error> {
        self.write("discarding", (id, note), discard).await
    }
}

async fn replay(
    tx: &mut Tx,
    (id, batch, livemode, fast): &(String, Batch, bool, bool),
) -> Result<Replayed, Error> {
    match lock(tx, id).await? {
        None => return Ok(Replayed::Missing),
        Some(letter) if letter.state != LetterState::Open => {
            return Ok(Replayed::NotOpen(letter.state));
        }
        Some(_) => {}
    }
    let recorded = record(tx, batch, *livemode, *fast).await;
    let verdicts = recorded.map_err(Error::or_first_held)?;
    end(tx, id, LetterState::Replayed, None).await?;
    verdicts
        .first()
        .copied()
        .map(Replayed::Judged)
        .ok_or(Error::Raced("judging a replay"))
}

async fn discard(tx: &mut Tx, (id, note): &(String, String)) -> Result<Discarded, Error> {
    let Some(mut letter) = lock(tx, id).await? else {
        return Ok(Discarded::Missing);
    };
    match letter.state {
        LetterState::Open => {}
        LetterState::Discarded if letter.note.as_ref() == Some(note) => {
            return Ok(Discarded::AlreadyThere(letter));
        }
        LetterState::Discarded | LetterState::Replayed => {
            return Ok(Discarded::NotOpen(letter));
        }
    }
    end(tx, id, LetterState::Discarded, Some(note)).await?;
    letter.state = LetterState::Discarded;
    letter.note = Some(note.clone());
    Ok(Discarded::Discarded(letter))
}
