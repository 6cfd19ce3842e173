//! Times of payments: parsed strictly, stored as they were sent, never a reason to refuse a payment.

use super::app::TestApp;
use crate::payment_event::{Reason, decode};

fn event(id: &str, occurred_at: &str) -> String {
    format!(
        r#"{{"event_id":"ev-{id}","type":"payment.succeeded","order_id":"{id}","provider":"acme",
            "transaction_id":"tx-{id}","amount":1000,"currency":"CNY","occurred_at":{occurred_at}}}"#
    )
}

#[tokio::test]
async fn no_time_keeps_a_payment_from_its_order() {
    let app = TestApp::start().await;
    for (id, sent, kept) in [
        (
            "epoch",
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:00.000000Z",
        ),
        (
            "early",
            "0001-01-01T00:00:00Z",
            "0001-01-01T00:00:00.000000Z",
        ),
        (
            "late",
            "2100-01-01T00:00:00Z",
            "2100-01-01T00:00:00.000000Z",
        ),
        (
            "utc",
            "2026-11-29T08:00:00+00:00",
            "2026-11-29T08:00:00.000000Z",
        ),
        (
            "east",
            "2026-11-29T10:00:00.5+02:00",
            "2026-11-29T08:00:00.500000Z",
        ),
        (
            "leap",
            "2016-12-31T23:59:60Z",
            "2016-12-31T23:59:59.999999Z",
        ),
    ] {
        app.create(id).await;
        let fact = decode("acme", event(id, &format!("\"{sent}\"")).as_bytes()).unwrap();
        assert_eq!(app.tell(vec![fact]).await[0].as_str(), "APPLIED", "{sent}");
        let payments = app.get(&format!("/v1/orders/{id}/payments")).await.json();
        assert_eq!(payments["items"][0]["occurred_at"], kept, "{sent}");
        let order = app.get(&format!("/v1/orders/{id}")).await.json();
        assert_eq!(order["status"], "PAID", "{sent}");
    }
}

#[test]
fn an_invalid_time_makes_a_dead_letter() {
    for (sent, reason) in [
        ("1764403200", Reason::WrongType),
        ("1764403200000", Reason::WrongType),
        ("\"1764403200\"", Reason::InvalidTime),
        ("\"2026-11-29T08:00:00\"", Reason::InvalidTime),
        ("\"2026-11-29\"", Reason::InvalidTime),
        ("\"2026-11-29T08:00:61Z\"", Reason::InvalidTime),
    ] {
        let error = decode("acme", event("OD-1", sent).as_bytes()).unwrap_err();
        assert_eq!(error.reason, reason, "{sent}");
    }
}
