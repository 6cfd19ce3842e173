//! A batch of due orders: asks about them, records the answers as facts, then takes a step with each order.

use order_fsm::{OrderStatus, Verdict};
use order_store::{
    DueOrder, FindingKind, PaymentFact, RecordedAnswer, Scope, Step, Stepped, UnreadableDue,
};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::ask::{Patience, ask_about};
use super::tally::Tally;
use super::{Failure, Reconciler};
use crate::payment_service::{Answer, State};
use crate::telemetry::chain;

/// After this many unknown answers in a row, a warning is logged.
const UNKNOWNS_ALARMING: i64 = 10;

/// An order with the answer about it.
struct Answered {
    order: DueOrder,
    answer: Answer,
}

impl Reconciler {
    /// Looks at orders that needn't be asked about yet.
    pub(super) async fn look_at(
        &self,
        orders: Vec<DueOrder>,
        dry_run: bool,
    ) -> Result<(), Failure> {
        let steps: Vec<_> = orders
            .into_iter()
            .map(|order| (order, Step::Look))
            .collect();
        self.step_each(&steps, dry_run).await.map(drop)
    }

    /// Puts off orders that can't be read: nothing is known about them, and each is a finding.
    pub(super) async fn put_off(
        &self,
        orders: Vec<UnreadableDue>,
        dry_run: bool,
        tally: &Tally,
    ) -> Result<(), Failure> {
        for order in &orders {
            let detail = format!("can't be read: {}", chain(&order.error));
            tally.find(&order.order_id, FindingKind::Inconsistent, detail);
        }
        tally.add(|counts| counts.unknown += orders.len() as u64);
        Ok(self.store.put_off(orders, dry_run).await?)
    }

    /// Without a payment service: unpaid orders come again, the others are left alone.
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
        let steps: Vec<_> = steps.collect();
        self.step_each(&steps, dry_run).await.map(drop)
    }

    /// Records what was answered. If it fails with a part of the answers, they are halved like questions.
    async fn record_answers(
        &self,
        answered: &mut [Answered],
        dry_run: bool,
    ) -> Result<Vec<Vec<RecordedAnswer>>, Failure> {
        let mut recorded = Vec::with_capacity(answered.len());
        let mut open = vec![(0, answered.len())];
        while let Some((start, end)) = open.pop() {
            let range = start..end;
            let facts: Vec<PaymentFact> = answered[range.clone()]
                .iter()
                .flat_map(|answered| answered.answer.facts.clone())
                .collect();
            match self.store.record_answers(facts, dry_run).await {
                Ok(all) => {
                    let mut all = all.into_iter();
                    for answered in &answered[range] {
                        let count = answered.answer.facts.len();
                        recorded.push(all.by_ref().take(count).collect());
                    }
                }
                Err(error) if !self.is_of_a_part(&error).await => return Err(error.into()),
                Err(_) if range.len() > 1 => {
                    let middle = usize::midpoint(start, end);
                    open.extend([(middle, end), (start, middle)]);
                }
                Err(error) => {
                    let why = chain(&error);
                    tracing::error!(
                        error = why,
                        "answer not recorded; its order counts as unknown"
                    );
                    answered[start].answer = Answer::unknown(why);
                    recorded.push(Vec::new());
                }
            }
        }
        Ok(recorded)
    }

    /// Takes a step with each of these orders. Orders with which it fails are left as they are, and stay due.
    async fn step_each(
        &self,
        steps: &[(DueOrder, Step)],
        dry_run: bool,
    ) -> Result<Vec<Stepped>, Failure> {
        let mut stepped = Vec::with_capacity(steps.len());
        let mut open = vec![steps];
        while let Some(part) = open.pop() {
            match self.store.step_due_orders(part.to_vec(), dry_run).await {
                Ok(done) => stepped.extend(done),
                Err(error) if !self.is_of_a_part(&error).await => return Err(error.into()),
                Err(_) if part.len() > 1 => {
                    let (left, right) = part.split_at(part.len() / 2);
                    open.extend([right, left]);
                }
                Err(error) => {
                    let order_id = part.first().map(|(order, _)| order.order_id.to_string());
                    tracing::error!(
                        order.id = order_id,
                        error = chain(&error),
                        "due order not handled; it stays due"
                    );
                    stepped.push(Stepped::Unreadable);
                }
            }
        }
        Ok(stepped)
    }

    /// Whether the error concerns only a part, so that others may succeed.
    pub(super) async fn is_of_a_part(&self, error: &order_store::Error) -> bool {
        match error.scope() {
            Scope::Data | Scope::Part => true,
            Scope::Slow => self.store.ping().await.is_ok(),
            Scope::Whole => false,
        }
    }
}

/// Handles a batch.
pub(super) async fn handle_batch(
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
    let recorded = reconciler.record_answers(&mut answered, dry_run).await?;
    let steps: Vec<(DueOrder, Step)> = answered
        .iter()
        .zip(&recorded)
        .map(|(answered, recorded)| (answered.order.clone(), step(answered, recorded)))
        .collect();
    let stepped = reconciler.step_each(&steps, dry_run).await?;
    for ((answered, recorded), stepped) in answered.iter().zip(&recorded).zip(stepped) {
        report(answered, recorded, stepped, &tally);
    }
    Ok(())
}

/// The step that follows from an answer.
fn step(Answered { order, answer }: &Answered, recorded: &[RecordedAnswer]) -> Step {
    if recorded.contains(&RecordedAnswer::New(Verdict::Applied)) {
        return Step::Paid;
    }
    let again = |unknown| Step::Asked { unknown };
    if recorded.contains(&RecordedAnswer::Unreadable) {
        return again(true);
    }
    if order.status == OrderStatus::NotPaid {
        match answer.state_after(recorded) {
            Some(State::UnpaidForGood) => Step::Cancel {
                reason: "the payment service says: unpaid, final".to_owned(),
            },
            None | Some(State::Paid | State::Refunded | State::Unpaid | State::Pending) => {
                again(false)
            }
            Some(State::Unknown(_)) => again(true),
        }
    } else {
        match &answer.state {
            State::Paid | State::Refunded | State::UnpaidForGood | State::Unpaid => Step::End,
            State::Pending => again(false),
            State::Unknown(_) => again(true),
        }
    }
}

/// Counts what became of an order, and keeps findings.
fn report(
    Answered { order, answer }: &Answered,
    recorded: &[RecordedAnswer],
    stepped: Stepped,
    tally: &Tally,
) {
    let mut raced = stepped == Stepped::Raced;
    for (fact, recorded) in answer.facts.iter().zip(recorded) {
        if let Some((kind, what)) = finding(*recorded) {
            tally.find(&order.order_id, kind, format!("{}: {what}", describe(fact)));
        }
        // Unpaid when it was read, paid when its payment was recorded: another path was faster.
        raced |= order.status == OrderStatus::NotPaid
            && matches!(recorded, RecordedAnswer::Known(Verdict::Applied, status) if *status != OrderStatus::NotPaid);
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
    if stepped == Stepped::Unreadable {
        let detail = "a row of it can't be read: it is left alone".to_owned();
        tally.find(&order.order_id, FindingKind::Inconsistent, detail);
    }
    let unknown = matches!(answer.state, State::Unknown(_))
        || stepped == Stepped::Unreadable
        || recorded.contains(&RecordedAnswer::Unreadable);
    if let State::Unknown(why) = &answer.state {
        tracing::debug!(
            order.id = %order.order_id, why,
            "payment state unknown; the order is asked about again later"
        );
        if order.unknowns() + 1 == UNKNOWNS_ALARMING {
            tracing::warn!(
                order.id = %order.order_id, why, answers = UNKNOWNS_ALARMING,
                "payment state of an order unknown many times in a row"
            );
        }
    }
    let healed = recorded.contains(&RecordedAnswer::New(Verdict::Applied));
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

/// The finding about a recorded payment, if there is one.
fn finding(recorded: RecordedAnswer) -> Option<(FindingKind, String)> {
    let kind = match recorded {
        RecordedAnswer::New(Verdict::Applied) => FindingKind::Healed,
        RecordedAnswer::New(Verdict::PaidAfterCancel) => FindingKind::PaidAfterCancel,
        RecordedAnswer::New(Verdict::SecondPayment) => FindingKind::SecondPayment,
        RecordedAnswer::New(Verdict::AmountMismatch | Verdict::CurrencyMismatch)
        | RecordedAnswer::Conflict(Verdict::ConflictingContent) => FindingKind::Mismatch,
        RecordedAnswer::New(Verdict::Reversed) => FindingKind::Refunded,
        RecordedAnswer::Known(Verdict::Applied, OrderStatus::NotPaid)
        | RecordedAnswer::Unreadable => FindingKind::Inconsistent,
        RecordedAnswer::New(_)
        | RecordedAnswer::Known(..)
        | RecordedAnswer::Conflict(_)
        | RecordedAnswer::GivenUp(_)
        | RecordedAnswer::Duplicate => {
            return None;
        }
    };
    let what = match recorded {
        RecordedAnswer::New(verdict) => format!("only the payment service reported it, {verdict}"),
        RecordedAnswer::Conflict(verdict) => format!("{verdict}"),
        RecordedAnswer::Known(verdict, status) => format!("it is {verdict}, its order {status}"),
        RecordedAnswer::Unreadable => "it can't be judged: a row can't be read".to_owned(),
        RecordedAnswer::GivenUp(_) | RecordedAnswer::Duplicate => String::new(),
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

/// The result of a batch's task.
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
