//! What the broker doesn't take holds up its own orders and nothing else.

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use order_testkit::Nats;

use super::{Beside, eventually_stored, ids, published, stored};
use crate::support::{Database, Payments, Service, event, eventually};

/// More than the relay reads at once.
const BLOCKED: usize = 2500;

/// A server with a user for the test, and one for the service that may not publish everything.
fn settings(denied: &str) -> String {
    format!(
        "authorization {{ users: [
            {{ user: test, password: test }}
            {{ user: orderd, password: orderd, permissions: {{ {denied} }} }}
        ] }}"
    )
}

async fn log_in(server: &Nats) -> Payments {
    let test = ConnectOptions::with_user_and_password("test".to_owned(), "test".to_owned());
    let mut payments = Payments::with(server.url(), test).await;
    payments.server = server.url().replace("//", "//orderd:orderd@");
    payments
}

async fn create_many(beside: &Beside, orders: std::ops::Range<usize>) {
    futures_util::stream::iter(orders)
        .for_each_concurrent(4, async |number| beside.create(&format!("O{number}")).await)
        .await;
}

async fn paid(payments: &Payments, number: usize) {
    let id = format!("O{number}");
    payments
        .publish(event("succeeded", &format!("tx-{id}"), &id, 1000))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_subject_holds_up_its_own_orders_until_it_is_permitted() {
    const OLD: usize = 20;
    let mut server = Nats::start_configured(&settings("")).unwrap();
    let (database, payments) = (Database::postgres().await, log_in(&server).await);
    let beside = Beside::migrated(&database).await;
    let service = Service::start(&database, &payments).await;
    create_many(&beside, 0..OLD).await;
    eventually_stored(&payments, &ids(0..OLD, 1)).await;

    let denied = r#"publish: { deny: "orders.events.created" }"#;
    server.restart_configured(&settings(denied)).unwrap();
    create_many(&beside, OLD..OLD + BLOCKED).await;
    // The payment of a blocked order waits for it; those of the older ones don't.
    paid(&payments, OLD).await;
    for number in 0..OLD {
        paid(&payments, number).await;
    }
    let before: Vec<String> = ids(0..OLD, 2);
    eventually_stored(&payments, &before).await;
    service.because("events-blocked", &["created"]).await;
    eventually("all that is blocked is counted", async || {
        let blocked = service.counter("orderd_blocked_events", "").await;
        (blocked == BLOCKED as u64 + 1).then_some(())
    })
    .await;
    let unpublished = usize::try_from(beside.unpublished().await).unwrap();
    assert_eq!(unpublished, BLOCKED + 1);
    assert_eq!(service.counter("orderd_set_aside_events", "").await, 0);

    // What comes now goes out as before.
    let mut expected = before;
    for number in 0..OLD {
        beside.ship(&format!("O{number}")).await;
        expected.push(format!("O{number}/3"));
    }
    eventually_stored(&payments, &expected).await;

    server.restart_configured(&settings("")).unwrap();
    expected.extend(ids(OLD..OLD + BLOCKED, 1));
    expected.push(format!("O{OLD}/2"));
    eventually_stored(&payments, &expected).await;
    beside.drained().await;
    service.ready_again().await;
    let unexpected = "orderd_unexpected_duplicates_total";
    assert_eq!(service.counter(unexpected, "").await, 0);
}

/// Its subject is mapped to one that no stream has: no permission is denied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_that_is_mapped_away_holds_up_nothing_else() {
    let away = r#"mappings: { "orders.events.created": "elsewhere.created" }"#;
    let mut server = Nats::start_configured(away).unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let beside = Beside::migrated(&database).await;
    for number in 0..5 {
        beside.create(&format!("O{number}")).await;
    }
    let service = Service::start_unready(&database, &payments).await;
    service.because("events-blocked", &["created"]).await;
    for number in 0..3 {
        beside.mismatch(&format!("O{number}")).await;
    }
    eventually("the exceptions are published", async || {
        (published(&service).await == 3).then_some(())
    })
    .await;
    assert_eq!(beside.unpublished().await, 5);
    server.restart_configured("").unwrap();
    beside.drained().await;
    service.ready_again().await;
    let found = stored(&payments).await;
    for id in ids(0..5, 1) {
        assert!(found.contains(&id), "{id}: {found:?}");
    }
}
