//! The verbs of the tests: start a service, publish, ask, wait.

mod database;
mod service;
mod stream;

use std::time::{Duration, Instant};

pub(crate) use database::Database;
pub(crate) use service::{Service, audit, configure, orderd};
pub(crate) use stream::Payments;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again until the answer is there. A bound, and never a fixed wait.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A payment event of the contract.
pub(crate) fn event(kind: &str, transaction_id: &str, order_id: &str, amount: i64) -> String {
    serde_json::json!({
        "event_id": format!("ev-{transaction_id}"),
        "type": format!("payment.{kind}"),
        "order_id": order_id,
        "provider": "acme",
        "transaction_id": transaction_id,
        "amount": amount,
        "currency": "EUR",
        "occurred_at": "2026-11-29T08:00:00Z",
    })
    .to_string()
}
