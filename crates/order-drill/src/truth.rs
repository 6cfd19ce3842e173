//! A plan's payments as the payment service knows them: from the moment they happen. Lost payments have happened from the
//! start, unless they have to wait for a cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use order_payment_mock::{Answer, Payment, Script};

use crate::Plan;
use crate::plan::{Case, Scenario, occurred_at};
use crate::words::Kind;

/// What has happened of a plan so far. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Truth(Arc<Known>);

#[derive(Debug)]
struct Known {
    plan: Plan,
    /// The case of each order.
    cases: Vec<u32>,
    /// Whether each fact has happened.
    happened: Vec<AtomicBool>,
}

impl Truth {
    /// At first only lost payments have happened, except those that wait for a cancellation.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut cases = Vec::with_capacity(plan.orders.len());
        for (number, case) in (0u32..).zip(&plan.ledger.cases) {
            cases.extend(case.orders.clone().map(|_| number));
        }
        let mut happened = Vec::with_capacity(plan.facts.len());
        for case in &plan.ledger.cases {
            let waits = case.scenario == Scenario::LostAfterCancel;
            let at_once = |fact| AtomicBool::new(plan.fact(fact).copies == 0 && !waits);
            happened.extend(case.facts.clone().map(at_once));
        }
        Self(Arc::new(Known {
            plan: plan.clone(),
            cases,
            happened,
        }))
    }

    /// The order's cancellation was requested: what waited for that happens now.
    pub(crate) fn cancelled(&self, order: u32) {
        let case = self.0.case_of(order);
        let lost = case.facts.clone();
        for fact in lost.filter(|&fact| self.0.plan.fact(fact).copies == 0) {
            self.happens(fact);
        }
    }

    /// Everything in the plan happens now.
    pub(crate) fn everything_happens(&self) {
        for happened in &self.0.happened {
            happened.store(true, Ordering::Release);
        }
    }

    /// This fact happens now.
    pub(crate) fn happens(&self, fact: u32) {
        self.0.happened[fact as usize].store(true, Ordering::Release);
    }

    /// Answers with what has happened by the time of the question.
    pub(crate) fn script(&self) -> Script {
        let truth = self.clone();
        Script::by(move |order_id| truth.0.answer(order_id))
    }
}

impl Known {
    fn case_of(&self, order: u32) -> &Case {
        &self.plan.ledger.cases[self.cases[order as usize] as usize]
    }

    /// A success is `paid`, a refund is one more entry; an order without either is `unpaid`, since a payment may still come.
    fn answer(&self, order_id: &str) -> Answer {
        let Some(order) = self.plan.order_number(order_id) else {
            return Answer::unknown();
        };
        let case = self.case_of(order);
        let mut answer = Answer::absent();
        for number in case.facts.clone() {
            let fact = self.plan.fact(number);
            if fact.order != order
                || !fact.live
                || !self.happened[number as usize].load(Ordering::Acquire)
            {
                continue;
            }
            let payment = || Payment {
                provider: self.plan.provider(fact).to_owned(),
                transaction_id: self.plan.transaction_id(fact),
                amount: fact.amount,
                currency: fact.currency.as_str().to_owned(),
                occurred_at: occurred_at(number),
            };
            match fact.kind {
                Kind::Succeeded => answer = answer.and(Answer::paid(payment())),
                Kind::Refunded => answer = answer.and(Answer::refunded(payment())),
                // The query has no state for a reversal, and an attempt isn't a payment.
                Kind::Reversed | Kind::Failed | Kind::Expired | Kind::PartiallyRefundedV2 => {}
            }
        }
        if answer.entries().is_empty() {
            Answer::unpaid()
        } else {
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use order_payment_mock::{Answer, Entry};

    use super::Truth;
    use crate::words::Kind;
    use crate::{Anomalies, Plan, PlanOptions};

    #[test]
    fn a_plans_payments_are_known_from_the_moment_they_happen_and_the_lost_ones_at_once() {
        let options = PlanOptions {
            orders: 200,
            lose: 0.2,
            expect_healed: true,
            anomalies: Anomalies::default(),
            ..PlanOptions::default()
        };
        let plan = Plan::generate(&options);
        let (truth, all) = (Truth::of(&plan), Truth::of(&plan));
        all.everything_happens();
        let lost: Vec<u32> = plan.lost().collect();
        assert_eq!(lost.len(), 36);
        let is_paid = |truth: &Truth, order: u32| {
            let answer = truth.script().answer(&plan.order_id(order));
            match answer.entries() {
                [Entry::Paid(payment)] => Some(payment.transaction_id.clone()),
                [Entry::Unpaid { is_final: false }] => None,
                other => panic!("{other:?}"),
            }
        };
        for (number, fact) in (0u32..)
            .zip(&plan.facts)
            .filter(|(_, fact)| fact.kind == Kind::Succeeded)
        {
            let transaction = Some(plan.transaction_id(fact));
            let before = if lost.contains(&number) {
                transaction.clone()
            } else {
                None
            };
            assert_eq!(is_paid(&truth, fact.order), before);
            truth.happens(number);
            assert_eq!(is_paid(&truth, fact.order), transaction);
            assert_eq!(is_paid(&all, fact.order), transaction);
        }
        let unpaid = (0..200)
            .filter(|&order| is_paid(&truth, order).is_none())
            .count();
        assert_eq!(unpaid, 20);
        assert_eq!(truth.script().answer("of-another-shop"), Answer::unknown());
    }
}
