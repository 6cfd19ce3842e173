//! Asks about a batch of orders, in smaller questions when a reply can't be read: one poisonous
//! order must not hold up the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use order_fsm::OrderId;
use order_store::DueOrder;
use tokio_util::sync::CancellationToken;

use super::Failure;
use crate::payment_service::{Answer, AskError, PaymentService, Reply, State};
use crate::telemetry::chain;

/// How long a question waits for its turn. After a longer pause, the next run asks.
const TURN_MAX: Duration = Duration::from_secs(30);

/// How often the service may ask for a pause before the orders of the question count as unknown.
const SENT_AWAY_MAX: u32 = 3;

/// Below this weight of faults, a failed question is halved.
const HALVING_MAX: u32 = 32;

/// From this weight on, the run gives up.
const GIVING_UP: u32 = 64;

/// The weight of the faults since the last reply; shared by the batches of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Patience(Arc<AtomicU32>);

impl Patience {
    fn replied(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Slow faults weigh more, because each costs a long wait.
    fn failed(&self, error: &AskError) {
        let weight = match error {
            AskError::Unreachable(_)
            | AskError::HungUp(_)
            | AskError::Denied(_)
            | AskError::Captured(_) => 8,
            AskError::Timeout => 4,
            AskError::NotYet(_)
            | AskError::SentAway(_)
            | AskError::Status(_)
            | AskError::TooLarge
            | AskError::Unreadable(_)
            | AskError::Store(_) => 1,
        };
        self.0.fetch_add(weight, Ordering::Relaxed);
    }

    fn allows_halving(&self) -> bool {
        self.0.load(Ordering::Relaxed) < HALVING_MAX
    }

    fn is_lost(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= GIVING_UP
    }
}

/// Answers about orders, in the order given.
pub(super) async fn ask_about(
    service: &PaymentService,
    orders: &[DueOrder],
    patience: &Patience,
    stop: &CancellationToken,
) -> Result<Vec<Answer>, Failure> {
    let ids: Vec<OrderId> = orders.iter().map(|order| order.order_id.clone()).collect();
    let mut answers: Vec<Option<Answer>> = vec![None; ids.len()];
    let mut open: Vec<Vec<usize>> = vec![(0..ids.len()).collect()];
    if patience.is_lost() {
        return Err(Failure::NoReplies);
    }
    while let Some(question) = open.pop() {
        // A batch that has begun is finished: its orders come again later than others.
        if patience.is_lost() {
            for index in question {
                answers[index] = Some(Answer::unknown("the payment service doesn't reply"));
            }
            continue;
        }
        let asked: Vec<OrderId> = question.iter().map(|&index| ids[index].clone()).collect();
        let replied = tokio::select! {
            replied = ask_patiently(service, &asked) => replied,
            () = stop.cancelled() => return Err(Failure::Stopped),
        };
        match replied {
            Ok(reply) => {
                patience.replied();
                let doubtful = take(reply, &question, &mut answers);
                halve(doubtful, &mut open);
            }
            Err(AskError::Store(error)) => return Err(error.into()),
            // Not in this run: they stay due.
            Err(AskError::NotYet(pause)) => return Err(Failure::NotToBeAsked(pause)),
            Err(error) => {
                patience.failed(&error);
                let halving =
                    question.len() > 1 && error.may_be_for_an_order() && patience.allows_halving();
                tracing::warn!(
                    error = %chain(&error), orders = question.len(), halving,
                    "question to the payment service not answered with a readable reply"
                );
                if halving {
                    halve(question, &mut open);
                } else {
                    let why = chain(&error);
                    for index in question {
                        answers[index] = Some(Answer::unknown(why.as_str()));
                    }
                }
            }
        }
    }
    let nothing = || Answer::unknown("the order was not asked about");
    let answers = answers.into_iter();
    Ok(answers
        .map(|answer| answer.unwrap_or_else(nothing))
        .collect())
}

/// Asks, and asks again if the service only wants a short pause.
async fn ask_patiently(service: &PaymentService, ids: &[OrderId]) -> Result<Reply, AskError> {
    let mut sent_away = 0;
    loop {
        match service.ask(ids, TURN_MAX).await {
            Err(AskError::SentAway(pause)) if pause <= TURN_MAX && sent_away < SENT_AWAY_MAX => {
                sent_away += 1;
            }
            other => return other,
        }
    }
}

/// Why an answer is uncertain.
const NAMELESS: &str = "an entry doesn't say what it is about";

/// Takes the answers of a reply. Returns the orders whose answer is uncertain because an entry of
/// the reply doesn't name its order: those are asked about again, in smaller questions.
fn take(reply: Reply, question: &[usize], answers: &mut [Option<Answer>]) -> Vec<usize> {
    let mut doubtful = Vec::new();
    for (&index, answer) in question.iter().zip(reply.answers) {
        let money = matches!(answer.state, State::Paid | State::Refunded);
        if reply.nameless == 0 {
            answers[index] = Some(answer);
        } else if money {
            answers[index] = Some(answer.doubting_the_rest(NAMELESS));
        } else if question.len() > 1 {
            doubtful.push(index);
        } else {
            answers[index] = Some(Answer::unknown(NAMELESS));
        }
    }
    doubtful
}

fn halve(mut question: Vec<usize>, open: &mut Vec<Vec<usize>>) {
    let right = question.split_off(question.len().div_ceil(2));
    // The left half is asked first.
    open.extend(
        [right, question]
            .into_iter()
            .filter(|half| !half.is_empty()),
    );
}
