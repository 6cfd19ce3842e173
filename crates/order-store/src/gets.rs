//! Orders read by id, many at a time: callers that ask while others are being read share the next statement.
//!
//! A caller's id goes into the next batch, whose statement is sent after the caller asked, so that callers read their own
//! writes. Nothing waits for company: an id that comes alone is read at once. If a batch had no connection or no answer in
//! time, neither has any caller of it; after any other error each of them reads for itself, with the errors of its own read.
//!
//! This file knows which caller waits for what; `get_order` reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use order_fsm::OrderId;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::orders::Order;

/// Batches that are read at the same time: while one is in the database, the answers of the other are handed out.
const BATCHES_MAX: usize = 2;

/// How many ids have to wait before another batch is begun beside one: a statement for a few ids costs nearly as much as one
/// for many.
const ENOUGH: usize = 16;

/// Ids of one statement at most.
const BATCH_MAX: usize = 256;

/// The ids that wait to be read. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gets(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Asked>,
    batches: usize,
    asked: u64,
}

#[derive(Debug)]
pub(crate) struct Asked {
    number: u64,
    pub(crate) order_id: OrderId,
    answer: oneshot::Sender<Result<Option<Order>, Failed>>,
}

/// A place in the queue.
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) answer: oneshot::Receiver<Result<Option<Order>, Failed>>,
}

/// Why a batch has no answers, if that is so for each of its callers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failed {
    NoConnection,
    TooLate(Duration),
}

/// The right to read batches until no caller waits.
pub(crate) struct Turn {
    gets: Gets,
    is_over: bool,
}

impl Gets {
    /// Puts an id into the next batch. With a turn, the caller has to see to it that it is read.
    pub(crate) fn ask(&self, order_id: OrderId) -> (Place, Option<Turn>) {
        let (sender, answer) = oneshot::channel();
        let mut queue = self.queue();
        queue.asked += 1;
        let number = queue.asked;
        queue.waiting.push(Asked {
            number,
            order_id,
            answer: sender,
        });
        let enough = if queue.batches == 0 { 1 } else { ENOUGH };
        let is_due = queue.batches < BATCHES_MAX && queue.waiting.len() >= enough;
        let turn = is_due.then(|| {
            queue.batches += 1;
            Turn {
                gets: self.clone(),
                is_over: false,
            }
        });
        (Place { number, answer }, turn)
    }

    /// Gives up a place, unless it is in a batch already.
    pub(crate) fn give_up(&self, number: u64) -> bool {
        let mut queue = self.queue();
        let before = queue.waiting.len();
        queue.waiting.retain(|asked| asked.number != number);
        queue.waiting.len() < before
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    pub(crate) fn answer(self, answer: Result<Option<Order>, Failed>) {
        // The caller may be gone.
        let _ = self.answer.send(answer);
    }
}

impl Failed {
    pub(crate) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Database {
                source: sqlx::Error::PoolTimedOut,
                ..
            } => Some(Self::NoConnection),
            Error::Deadline(bound) => Some(Self::TooLate(*bound)),
            _ => None,
        }
    }
}

impl Turn {
    /// The next batch; without one the turn is over, and the next caller gets one.
    pub(crate) fn next(&mut self) -> Option<Vec<Asked>> {
        let mut queue = self.gets.queue();
        if queue.waiting.is_empty() {
            queue.batches -= 1;
            self.is_over = true;
            return None;
        }
        let count = queue.waiting.len().min(BATCH_MAX);
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for Turn {
    /// Ends a turn that a panic or the end of the runtime cut short. Its waiting callers are notified, and read for themselves.
    fn drop(&mut self) {
        if !self.is_over {
            let mut queue = self.gets.queue();
            queue.batches -= 1;
            queue.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> OrderId {
        text.parse().unwrap()
    }

    #[test]
    fn callers_during_a_read_share_the_next_batch() {
        let gets = Gets::default();
        let mut first = gets.ask(id("OD-1")).1.unwrap();
        assert_eq!(first.next().map(|batch| batch.len()), Some(1));
        for _ in 1..ENOUGH {
            assert!(gets.ask(id("OD-1")).1.is_none(), "too few for a statement");
        }
        let second = gets.ask(id("OD-1")).1.unwrap();
        let mut turns = [first, second];
        assert_eq!(turns[1].next().map(|batch| batch.len()), Some(ENOUGH));
        for _ in 0..=ENOUGH {
            assert!(gets.ask(id("OD-2")).1.is_none(), "both turns go on");
        }
        assert_eq!(turns[0].next().map(|batch| batch.len()), Some(ENOUGH + 1));
        assert!(gets.ask(id("OD-2")).1.is_none(), "both turns go on");
        assert_eq!(turns[1].next().map(|batch| batch.len()), Some(1));
        assert!(turns[0].next().is_none() && turns[1].next().is_none());
        assert!(
            gets.ask(id("OD-3")).1.is_some(),
            "no turn is taken any more"
        );
    }

    #[test]
    fn a_turn_that_is_cut_short_leaves_no_caller_waiting() {
        let gets = Gets::default();
        let (mut place, turn) = gets.ask(id("OD-1"));
        drop(turn);
        assert!(place.answer.try_recv().is_err());
        assert!(gets.queue().waiting.is_empty());
        assert!(gets.ask(id("OD-1")).1.is_some());
    }

    #[test]
    fn a_place_is_given_up_only_before_its_batch() {
        let gets = Gets::default();
        let (first, turn) = gets.ask(id("OD-1"));
        let mut turn = turn.unwrap();
        let batch = turn.next().unwrap();
        assert!(!gets.give_up(first.number));
        let (second, _turn) = gets.ask(id("OD-2"));
        assert!(gets.give_up(second.number));
        assert_eq!(batch.len(), 1);
    }

    #[test]
    fn statements_are_limited() {
        let gets = Gets::default();
        // The places are kept, since their callers wait.
        let asked: Vec<_> = (0..=BATCH_MAX).map(|_| gets.ask(id("OD-1"))).collect();
        let mut turns: Vec<Turn> = asked.into_iter().filter_map(|(_, turn)| turn).collect();
        let mut turn = turns.remove(0);
        assert_eq!(turn.next().map(|batch| batch.len()), Some(BATCH_MAX));
        assert_eq!(turn.next().map(|batch| batch.len()), Some(1));
    }
}
