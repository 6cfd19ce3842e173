//! Asks the service about every order of the plan, and finds the outcome that its answers match, case by case.

mod case;
mod history;
#[cfg(test)]
mod tests;

pub(crate) use case::is_payment;
use case::{Nearest, nearest};

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::api::{PAGE, PAGE_SMALL};
use crate::plan::{Case, ExpectedException, Outcome, Recorded, Scenario, Tally};
use crate::session::Session;
use crate::view::{HistoryItem, OrderView, PaymentView};
use crate::words::Verdict;
use crate::{Difference, Differences, Plan};

/// What was found, and what the nearest allowed outcomes demand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Comparison {
    pub(crate) differences: Differences,
    /// Orders by status.
    pub(crate) statuses: BTreeMap<String, u64>,
    /// Recorded payments by verdict.
    pub(crate) verdicts: BTreeMap<String, u64>,
    /// What the outcomes demand of the recorded payments.
    pub(crate) expected: Tally,
    /// What they demand of the counters: a payment that a reconciliation recorded is no delivery.
    pub(crate) counted: Tally,
    /// Payments that a reconciliation recorded, lost or not.
    pub(crate) healed: Vec<Healed>,
    /// Exceptions that the outcomes demand.
    pub(crate) exceptions: Vec<ExpectedException>,
    /// Applied transitions by number of the order, if they are needed.
    pub(crate) transitions: BTreeMap<u32, Vec<HistoryItem>>,
}

/// What was seen of an order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// `None` if the order doesn't exist.
    pub(crate) order: Option<OrderView>,
    /// Oldest first.
    pub(crate) history: Vec<HistoryItem>,
    /// `None` if neither the order nor a payment of it exists.
    pub(crate) payments: Option<Vec<PaymentView>>,
}

/// A payment that a reconciliation recorded, with its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Healed {
    pub(crate) fact: u32,
    pub(crate) verdict: Verdict,
    /// The question before a cancellation by hand may have found it instead of a run.
    pub(crate) perhaps_by_hand: bool,
}

const PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn compare(session: &Session<'_>) -> Comparison {
    let Session {
        options,
        plan,
        progress,
        ..
    } = session;
    let mut comparison = Comparison::default();
    let mut open: Vec<&Case> = plan.ledger.cases.iter().collect();
    let mut until = None;
    progress.enter("comparing", open.len() as u64);
    loop {
        let patient = until.is_none_or(|until| Instant::now() < until);
        let inspections = open.into_iter().map(|case| inspect(session, case));
        let mut inspections =
            stream::iter(inspections).buffer_unordered(options.http_in_flight.max(1));
        let mut differing = Vec::new();
        while let Some(inspected) = inspections.next().await {
            progress.advance();
            if patient && !inspected.nearest.differences.is_empty() {
                differing.push(inspected.case);
            } else {
                comparison.add(plan, inspected, options.events);
            }
        }
        if differing.is_empty() {
            return comparison;
        }
        // A waiting payment is settled in a transaction after its ack, so differences have some time to disappear.
        until.get_or_insert_with(|| Instant::now() + options.patience);
        progress.enter("comparing again what differed", differing.len() as u64);
        open = differing;
        sleep(PAUSE).await;
    }
}

struct Inspected<'a> {
    case: &'a Case,
    seen: Vec<Seen>,
    nearest: Nearest,
}

async fn inspect<'a>(session: &Session<'_>, case: &'a Case) -> Inspected<'a> {
    let mut seen = Vec::with_capacity(case.orders.len());
    let mut faults = Vec::new();
    for order in case.orders.clone() {
        match inspect_order(session, case.scenario, order).await {
            Ok(order) => seen.push(order),
            Err(fault) => faults.push(fault),
        }
    }
    let nearest = if faults.is_empty() {
        nearest(session.plan, case, &seen)
    } else {
        Nearest {
            outcome: 0,
            differences: faults,
        }
    };
    Inspected {
        case,
        seen,
        nearest,
    }
}

async fn inspect_order(
    session: &Session<'_>,
    scenario: Scenario,
    order: u32,
) -> Result<Seen, Difference> {
    let api = &session.api;
    let path = format!("/v1/orders/{}", session.plan.order_id(order));
    let usual = matches!(scenario, Scenario::Paid | Scenario::Unpaid | Scenario::Lost);
    let limit = if usual { PAGE } else { PAGE_SMALL };
    let order = api.resource(&path).await?;
    let history = api.list(&format!("{path}/history"), limit).await?;
    Ok(Seen {
        order,
        history: history.unwrap_or_default(),
        payments: api.list(&format!("{path}/payments"), limit).await?,
    })
}

fn healed(plan: &Plan, case: &Case, outcome: &Outcome, seen: &[Seen]) -> Vec<Healed> {
    let is_cancelled = matches!(
        case.scenario,
        Scenario::CancelRace | Scenario::LostAfterCancel
    );
    let is_healed = |recorded: &&Recorded| {
        let mut views = seen.iter().flat_map(|seen| seen.payments.iter().flatten());
        views.any(|view| view.source == "reconciliation" && is_payment(plan, recorded.fact, view))
    };
    let recorded = outcome.recorded.iter().filter(is_healed);
    recorded
        .map(|&Recorded { fact, verdict }| Healed {
            fact,
            verdict,
            perhaps_by_hand: verdict == Verdict::Applied && is_cancelled,
        })
        .collect()
}

impl Comparison {
    fn add(&mut self, plan: &Plan, inspected: Inspected<'_>, keep_transitions: bool) {
        let Inspected {
            case,
            seen,
            nearest,
        } = inspected;
        self.differences.extend(nearest.differences);
        if let Some(outcome) = case.outcomes.get(nearest.outcome) {
            self.expected.add_outcome(plan, case, outcome);
            self.counted.add_outcome(plan, case, outcome);
            for healed in healed(plan, case, outcome, &seen) {
                self.counted
                    .heal(healed.verdict, plan.fact(healed.fact).copies);
                self.healed.push(healed);
            }
            self.exceptions.extend(outcome.exceptions(plan, case));
        }
        for (number, order) in case.orders.clone().zip(seen) {
            if let Some(view) = &order.order {
                *self.statuses.entry(view.status.clone()).or_default() += 1;
                if keep_transitions {
                    let applied = order.history.into_iter().filter(HistoryItem::is_applied);
                    self.transitions.insert(number, applied.collect());
                }
            }
            for payment in order.payments.into_iter().flatten() {
                *self.verdicts.entry(payment.verdict).or_default() += 1;
            }
        }
    }
}
