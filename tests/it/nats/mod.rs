//! What an operator of NATS can set, grant and deny, and what the service makes of it: it puts it right,
//! works with it, or names it as the reason why it isn't ready.

mod consumers;
mod denied;
mod handover;
mod limits;
mod logins;
mod question;
mod streams;

use order_testkit::Nats;

use crate::support::{Database, Payments, Service, event};

/// Creates an order, publishes its payment, and waits until it is paid.
async fn pays(service: &Service, payments: &Payments, order_id: &str) {
    service.create(order_id).await;
    let paid = event("succeeded", &format!("tx-{order_id}"), order_id, 1000);
    payments.publish(paid).await;
    service.paid(order_id).await;
}

/// A service that its owner doesn't wait for, on a broker of the test's own.
async fn unready(server: &Nats) -> (Database, Payments, Service) {
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let service = Service::start_unready(&database, &payments).await;
    (database, payments, service)
}

async fn recreated(service: &Service) -> u64 {
    service.counter("orderd_consumer_recreated_total", "").await
}
