//! A plan's payments as the payment service knows them: told from the moment they happen, and the lost ones all along, unless
//! they have to wait for a cancelling.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Answer, Payment, Script};
use crate::{Case, Kind, Plan, Scenario};

/// What has happened of a plan so far. Clones share it.
#[derive(Debug, Clone)]
pub struct Truth(Arc<Known>);

#[derive(Debug)]
struct Known {
    plan: Plan,
    /// The case of each order.
    cases: Vec<u32>,
    /// Whether each fact has happened.
    happened: Vec<AtomicBool>,
}

impl Truth {
    /// Nothing has happened but what no message will tell.
    pub fn of(plan: &Plan) -> Self {
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

    /// The order was asked to be cancelled: what waited for that happens now.
    pub fn cancelled(&self, order: u32) {
        let case = self.0.case_of(order);
        let lost = case.facts.clone();
        for fact in lost.filter(|&fact| self.0.plan.fact(fact).copies == 0) {
            self.happens(fact);
        }
    }

    /// Everything has happened.
    pub fn all_of(plan: &Plan) -> Self {
        let truth = Self::of(plan);
        truth.everything_happens();
        truth
    }

    /// Whatever the plan holds happens now.
    pub fn everything_happens(&self) {
        for happened in &self.0.happened {
            happened.store(true, Ordering::Release);
        }
    }

    /// This fact happens now.
    pub fn happens(&self, fact: u32) {
        self.0.happened[fact as usize].store(true, Ordering::Release);
    }

    /// Answers by what has happened by the time of the question.
    pub fn script(&self) -> Script {
        let truth = self.clone();
        Script::by(move |order_id| truth.0.answer(order_id))
    }
}

impl Known {
    fn case_of(&self, order: u32) -> &Case {
        &self.plan.ledger.cases[self.cases[order as usize] as usize]
    }

    /// Money that came is `paid`, money that went back is told besides; whoever paid nothing may pay yet.
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
                occurred_at: self.plan.occurred_at(number),
            };
            match fact.kind {
                Kind::Succeeded => answer = answer.and(Answer::paid(payment())),
                Kind::Refunded => answer = answer.and(Answer::refunded(payment())),
                // No word of the query says that; and who only tried has not paid.
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
