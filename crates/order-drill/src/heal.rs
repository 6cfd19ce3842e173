//! Waits until a reconciliation has healed everything that was lost. What it never heals shows in the comparison.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::api::PAGE;
use crate::compare::is_payment;
use crate::session::Session;
use crate::view::PaymentView;

const PAUSE: Duration = Duration::from_millis(500);

pub(crate) async fn wait(session: &Session<'_>) {
    let Session {
        options,
        plan,
        progress,
        ..
    } = session;
    let lost: Vec<u32> = plan.to_heal().collect();
    progress.enter("waiting until lost payments are healed", lost.len() as u64);
    let until = Instant::now() + options.heal;
    let waits = lost.into_iter().map(|fact| healed(session, fact, until));
    let mut waits = stream::iter(waits).buffer_unordered(options.http_in_flight.max(1));
    while waits.next().await.is_some() {
        progress.advance();
    }
}

async fn healed(session: &Session<'_>, fact: u32, until: Instant) {
    let plan = session.plan;
    let order_id = plan.order_id(plan.fact(fact).order);
    let path = format!("/v1/orders/{order_id}/payments");
    while Instant::now() < until {
        let payments = session.api.list::<PaymentView>(&path, PAGE).await;
        let mut payments = payments.unwrap_or_default().into_iter().flatten();
        if payments.any(|view| is_payment(plan, fact, &view)) {
            return;
        }
        sleep(PAUSE).await;
    }
}
