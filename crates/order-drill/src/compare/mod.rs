//! Asks the service about every order of the plan, and judges its answers case by case.

mod case;
mod history;
#[cfg(test)]
mod tests;

pub(crate) use case::is_payment;
pub use case::{Judged, Seen, judge};

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::api::Api;
use crate::events::Trail;
use crate::ledger::{ExpectedException, Outcome, Recorded};
use crate::progress::{Phase, Progress};
use crate::{Case, Difference, Differences, Plan, RunOptions, Scenario, Tally, Verdict};

/// What was found, and what the nearest allowed outcomes demand.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// What isn't as it must be.
    pub differences: Differences,
    /// Orders by status.
    pub statuses: BTreeMap<String, u64>,
    /// Recorded payments by verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// What the outcomes demand of the recorded payments.
    pub expected: Tally,
    /// What they demand of the counters: what a reconciliation told is no delivery.
    pub counted: Tally,
    /// Payments that a reconciliation told, lost or not.
    pub healed: Vec<Healed>,
    /// Exceptions that the outcomes demand.
    pub exceptions: Vec<ExpectedException>,
    /// Applied transitions, by number of the order; kept only if they are asked for.
    pub(crate) trails: BTreeMap<u32, Trail>,
}

/// A payment that a reconciliation told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Healed {
    /// Its fact.
    pub fact: u32,
    /// The verdict stored with it.
    pub verdict: Verdict,
}

const PAUSE: Duration = Duration::from_millis(200);
const PAGE: u8 = 200;
/// Small enough that cursors are followed; for the anomalies only, it costs a request per page.
const PAGE_SMALL: u8 = 2;

pub(crate) async fn compare(
    plan: &Plan,
    options: &RunOptions,
    api: &Api,
    progress: &Progress,
) -> Comparison {
    let mut comparison = Comparison::default();
    let mut open: Vec<&Case> = plan.ledger.cases.iter().collect();
    let mut until = None;
    progress.enter(Phase::Comparing, open.len() as u64);
    loop {
        let patient = until.is_none_or(|until| Instant::now() < until);
        let looks = open.into_iter().map(|case| look(plan, api, case));
        let mut looks = stream::iter(looks).buffer_unordered(options.http_in_flight.max(1));
        let mut differing = Vec::new();
        while let Some(look) = looks.next().await {
            progress.advance();
            if patient && !look.judged.differences.is_empty() {
                differing.push(look.case);
            } else {
                comparison.add(plan, look, options.events);
            }
        }
        if differing.is_empty() {
            return comparison;
        }
        // A waiting payment is settled in a transaction after its ack: what differs is given time, but a bounded one.
        until.get_or_insert_with(|| Instant::now() + options.patience);
        progress.enter(Phase::LookingAgain, differing.len() as u64);
        open = differing;
        sleep(PAUSE).await;
    }
}

struct Look<'a> {
    case: &'a Case,
    seen: Vec<Seen>,
    judged: Judged,
}

async fn look<'a>(plan: &Plan, api: &Api, case: &'a Case) -> Look<'a> {
    let mut seen = Vec::with_capacity(case.orders.len());
    let mut faults = Vec::new();
    for order in case.orders.clone() {
        match look_at_order(plan, api, case.scenario, order).await {
            Ok(order) => seen.push(order),
            Err(fault) => faults.push(fault),
        }
    }
    let judged = if faults.is_empty() {
        judge(plan, case, &seen)
    } else {
        Judged {
            outcome: 0,
            differences: faults,
        }
    };
    Look { case, seen, judged }
}

async fn look_at_order(
    plan: &Plan,
    api: &Api,
    scenario: Scenario,
    order: u32,
) -> Result<Seen, Difference> {
    let path = format!("/v1/orders/{}", plan.order_id(order));
    let usual = matches!(scenario, Scenario::Paid | Scenario::Unpaid | Scenario::Lost);
    let limit = if usual { PAGE } else { PAGE_SMALL };
    Ok(Seen {
        order: api.resource(&path).await?,
        history: api
            .list(&format!("{path}/history"), limit)
            .await?
            .unwrap_or_default(),
        payments: api.list(&format!("{path}/payments"), limit).await?,
    })
}

fn healed(plan: &Plan, outcome: &Outcome, seen: &[Seen]) -> Vec<Healed> {
    let is_told = |fact: u32| {
        let mut views = seen.iter().flat_map(|seen| seen.payments.iter().flatten());
        views.any(|view| view.source == "reconciliation" && is_payment(plan, fact, view))
    };
    let recorded = outcome
        .recorded
        .iter()
        .filter(|recorded| is_told(recorded.fact));
    recorded
        .map(|&Recorded { fact, verdict }| Healed { fact, verdict })
        .collect()
}

impl Comparison {
    fn add(&mut self, plan: &Plan, look: Look<'_>, keep_trails: bool) {
        let Look { case, seen, judged } = look;
        self.differences.extend(judged.differences);
        if let Some(outcome) = case.outcomes.get(judged.outcome) {
            self.expected.add_outcome(plan, case, outcome);
            self.counted.add_outcome(plan, case, outcome);
            for healed in healed(plan, outcome, &seen) {
                self.counted
                    .heal(healed.verdict, plan.fact(healed.fact).copies);
                self.healed.push(healed);
            }
            self.exceptions.extend(outcome.exceptions(plan, case));
        }
        for (number, order) in case.orders.clone().zip(seen) {
            if let Some(view) = &order.order {
                *self.statuses.entry(view.status.clone()).or_default() += 1;
                if keep_trails {
                    self.trails.insert(number, Trail::of(&order.history));
                }
            }
            for payment in order.payments.into_iter().flatten() {
                *self.verdicts.entry(payment.verdict).or_default() += 1;
            }
        }
    }
}
