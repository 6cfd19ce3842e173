//! A batch of due orders: asked about, its answers told as facts, then a step with each order.

use order_fsm::{OrderStatus, Verdict};
use order_store::{DueOrder, FindingKind, PaymentFact, Step, Stepped, Told};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::ask::{Patience, ask_about};
use super::tally::Tally;
use super::{Failure, Reconciler};
use crate::payment_service::{Answer, State};
use crate::telemetry::chain;

/// After so many answers in a row that told nothing, people are told.
const UNKNOWNS_ALARMING: i64 = 10;

/// An order with what was said about it.
struct Answered {
    order: DueOrder,
    answer: Answer,
}

impl Reconciler {
    /// Orders whose question is still to come.
    pub(super) async fn look_at(
        &self,
        orders: Vec<DueOrder>,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let steps = orders
            .into_iter()
            .map(|order| (order, Step::Look))
            .collect();
        self.store.step_due_orders(steps, dry_run).await?;
        Ok(())
    }

    /// Without anybody to ask: unpaid orders come again, the others are left alone.
    async fn pass_over(&self, orders: Vec<DueOrder>, dry_run: bool) -> Result<(), Failure> {
        let steps = orders.into_iter().map(|order| {
            let step = match order.status {
                OrderStatus::NotPaid => Step::Asked { unknown: false },
                OrderStatus::Paid
                | OrderStatus::Shipped
                | OrderStatus::Done
                | OrderStatus::Cancelled => Step::End,
            };
            (order, step)
        });
        self.store.step_due_orders(steps.collect(), dry_run).await?;
        Ok(())
    }

    /// Tells what was answered. Facts that the database refuses are narrowed down like replies.
    async fn tell(
        &self,
        answered: &mut [Answered],
        dry_run: bool,
    ) -> Result<Vec<Vec<Told>>, Failure> {
        let mut told = Vec::with_capacity(answered.len());
        let mut open = vec![(0, answered.len())];
        while let Some((start, end)) = open.pop() {
            let range = start..end;
            let facts: Vec<PaymentFact> = answered[range.clone()]
                .iter()
                .flat_map(|answered| answered.answer.facts.clone())
                .collect();
            match self.store.tell_answers(facts, dry_run).await {
                Ok(all) => {
                    let mut all = all.into_iter();
                    for answered in &answered[range] {
                        let count = answered.answer.facts.len();
                        told.push(all.by_ref().take(count).collect());
                    }
                }
                Err(error) if error.is_data() && range.len() > 1 => {
                    let middle = usize::midpoint(start, end);
                    open.extend([(middle, end), (start, middle)]);
                }
                Err(error) if error.is_data() => {
                    let why = chain(&error);
                    tracing::error!(error = why, "the database refuses an answer");
                    answered[start].answer = Answer::unknown(why);
                    told.push(Vec::new());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(told)
    }
}

/// Carries out a batch.
pub(super) async fn settle_batch(
    reconciler: Reconciler,
    orders: Vec<DueOrder>,
    dry_run: bool,
    tally: Tally,
    patience: Patience,
    stop: CancellationToken,
) -> Result<(), Failure> {
    let Some(service) = &reconciler.service else {
        return reconciler.pass_over(orders, dry_run).await;
    };
    let answers = ask_about(service, &orders, &patience, &stop).await?;
    let mut answered: Vec<Answered> = orders
        .into_iter()
        .zip(answers)
        .map(|(order, answer)| Answered { order, answer })
        .collect();
    tally.add(|counts| counts.asked += answered.len() as u64);
    let told = reconciler.tell(&mut answered, dry_run).await?;
    let steps: Vec<(DueOrder, Step)> = answered
        .iter()
        .zip(&told)
        .map(|(answered, told)| (answered.order.clone(), step(answered, told)))
        .collect();
    let stepped = reconciler.store.step_due_orders(steps, dry_run).await?;
    for ((answered, told), stepped) in answered.iter().zip(&told).zip(stepped) {
        report(answered, told, stepped, &tally);
    }
    Ok(())
}

/// What is to be done with an order after its answer.
fn step(Answered { order, answer }: &Answered, told: &[Told]) -> Step {
    if told.contains(&Told::New(Verdict::Applied)) {
        return Step::Paid;
    }
    let again = |unknown| Step::Asked { unknown };
    if order.status == OrderStatus::NotPaid {
        match &answer.state {
            State::UnpaidForGood => Step::Cancel {
                reason: "the payment service says: unpaid, final".to_owned(),
            },
            State::Paid | State::Refunded | State::Unpaid | State::Pending => again(false),
            State::Unknown(_) => again(true),
        }
    } else {
        match &answer.state {
            State::Paid | State::Refunded | State::UnpaidForGood | State::Unpaid => Step::End,
            State::Pending => again(false),
            State::Unknown(_) => again(true),
        }
    }
}

/// Counts what came of an order, and keeps what people should know.
fn report(Answered { order, answer }: &Answered, told: &[Told], stepped: Stepped, tally: &Tally) {
    let mut raced = stepped == Stepped::Raced;
    for (fact, told) in answer.facts.iter().zip(told) {
        if let Some((kind, what)) = finding(*told) {
            tally.find(&order.order_id, kind, format!("{}: {what}", describe(fact)));
        }
        // Found unpaid, paid when its payment was told: another path was faster.
        raced |= order.status == OrderStatus::NotPaid
            && matches!(told, Told::Known(Verdict::Applied, status) if *status != OrderStatus::NotPaid);
    }
    let unpaid_though_paid = matches!(answer.state, State::Unpaid | State::UnpaidForGood)
        && matches!(
            order.status,
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Done
        );
    if unpaid_though_paid {
        let detail = format!("is {}, the payment service says: unpaid", order.status);
        tally.find(&order.order_id, FindingKind::Inconsistent, detail);
    }
    if stepped == Stepped::Inconsistent {
        let detail = "is NOT_PAID, its history says that it was paid".to_owned();
        tally.find(&order.order_id, FindingKind::Inconsistent, detail);
    }
    let unknown = matches!(answer.state, State::Unknown(_));
    if let State::Unknown(why) = &answer.state {
        tracing::debug!(order.id = %order.order_id, why, "the state of a payment is unknown");
        if order.unknowns() + 1 == UNKNOWNS_ALARMING {
            tracing::warn!(
                order.id = %order.order_id, why, answers = UNKNOWNS_ALARMING,
                "the payment service never knows about an order"
            );
        }
    }
    let healed = told.contains(&Told::New(Verdict::Applied));
    let cancelled = stepped == Stepped::Cancelled;
    let left = order.status != OrderStatus::NotPaid && answer.state != State::Pending;
    tally.add(|counts| match () {
        () if healed => counts.healed += 1,
        () if cancelled => counts.cancelled += 1,
        () if raced => counts.raced += 1,
        () if unknown => counts.unknown += 1,
        () if left => {}
        () => counts.pending += 1,
    });
}

/// What people should know about a payment that was told.
fn finding(told: Told) -> Option<(FindingKind, String)> {
    let kind = match told {
        Told::New(Verdict::Applied) => FindingKind::Healed,
        Told::New(Verdict::PaidAfterCancel) => FindingKind::PaidAfterCancel,
        Told::New(Verdict::SecondPayment) => FindingKind::SecondPayment,
        Told::New(Verdict::AmountMismatch | Verdict::CurrencyMismatch)
        | Told::Conflict(Verdict::ConflictingContent) => FindingKind::Mismatch,
        Told::New(Verdict::Reversed) => FindingKind::Refunded,
        Told::Known(Verdict::Applied, OrderStatus::NotPaid) => FindingKind::Inconsistent,
        Told::New(_) | Told::Known(..) | Told::Conflict(_) | Told::Duplicate => return None,
    };
    let what = match told {
        Told::New(verdict) => format!("only the payment service told of it, {verdict}"),
        Told::Conflict(verdict) => format!("{verdict}"),
        Told::Known(verdict, status) => format!("it is {verdict}, its order {status}"),
        Told::Duplicate => String::new(),
    };
    Some((kind, what))
}

fn describe(fact: &PaymentFact) -> String {
    format!(
        "{}/{} ({}), {} {}",
        fact.key.provider,
        fact.key.transaction_id,
        fact.key.kind,
        fact.content.amount.minor_units(),
        fact.content.currency
    )
}

/// The end of a batch's task.
pub(super) fn joined(done: Result<Result<(), Failure>, JoinError>) -> Result<(), Failure> {
    match done {
        Ok(ended) => ended,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels tasks.
            Err(_) => Err(Failure::Stopped),
        },
    }
}
