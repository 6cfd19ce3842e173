//! A plan's payments as the payment service knows them: told from the moment they happen, and the lost ones all along.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Answer, Payment, Script};
use crate::{Kind, Plan};

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
        let happened = plan
            .facts
            .iter()
            .map(|fact| AtomicBool::new(fact.copies == 0))
            .collect();
        Self(Arc::new(Known {
            plan: plan.clone(),
            cases,
            happened,
        }))
    }

    /// Everything has happened.
    pub fn all_of(plan: &Plan) -> Self {
        let truth = Self::of(plan);
        (0u32..)
            .zip(&plan.facts)
            .for_each(|(fact, _)| truth.happens(fact));
        truth
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
    /// Money that came is `paid`, money that went back is told besides; whoever paid nothing may pay yet.
    fn answer(&self, order_id: &str) -> Answer {
        let Some(order) = self.plan.order_number(order_id) else {
            return Answer::unknown();
        };
        let case = &self.plan.ledger.cases[self.cases[order as usize] as usize];
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
