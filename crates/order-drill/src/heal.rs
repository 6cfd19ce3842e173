//! Waits until a reconciliation has found everything that was lost. What it never finds is the comparison's to tell.

use futures_util::{StreamExt, stream};
use tokio::time::{Duration, Instant, sleep};

use crate::api::Api;
use crate::compare::is_payment;
use crate::progress::{Phase, Progress};
use crate::view::PaymentView;
use crate::{Plan, RunOptions};

const PAUSE: Duration = Duration::from_millis(500);
const PAGE: u8 = 200;

pub(crate) async fn wait(plan: &Plan, options: &RunOptions, api: &Api, progress: &Progress) {
    let lost: Vec<u32> = plan.to_heal().collect();
    progress.enter(Phase::Healing, lost.len() as u64);
    let until = Instant::now() + options.heal;
    let waits = lost.into_iter().map(|fact| healed(plan, api, fact, until));
    let mut waits = stream::iter(waits).buffer_unordered(options.http_in_flight.max(1));
    while waits.next().await.is_some() {
        progress.advance();
    }
}

async fn healed(plan: &Plan, api: &Api, fact: u32, until: Instant) {
    let path = format!(
        "/v1/orders/{}/payments",
        plan.order_id(plan.fact(fact).order)
    );
    while Instant::now() < until {
        let payments: Option<Vec<PaymentView>> = api.list(&path, PAGE).await.unwrap_or_default();
        let mut payments = payments.into_iter().flatten();
        if payments.any(|view| is_payment(plan, fact, &view)) {
            return;
        }
        sleep(PAUSE).await;
    }
}
