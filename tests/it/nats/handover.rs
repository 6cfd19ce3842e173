//! One instance stops, another one goes on: nothing waits until it counts as lost.

use std::time::Duration;

use order_testkit::{Nats, Postgres};

use super::pays;
use crate::support::{Database, Payments, Service, audit, event, eventually};

/// Far less than the time after which the broker would deliver again what isn't acked.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Payments per tick of a steady load.
const PER_TICK: usize = 10;
const TICK: Duration = Duration::from_millis(20);

async fn publish(payments: &Payments, number: usize) {
    let body = event(
        "succeeded",
        &format!("tx{number}"),
        &format!("O{number}"),
        1000,
    );
    payments.publish(body).await;
}

/// The pull that waits when the service is stopped may still be served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_delivered_to_a_service_that_stops_is_recorded_and_acked() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut number = 0;
    for _ in 0..8 {
        let service = Service::start(&database, &payments).await;
        let (sent, mut told) = tokio::sync::oneshot::channel();
        let load = async {
            while told.try_recv().is_err() {
                publish(&payments, number).await;
                number += 1;
            }
        };
        let stop = async {
            eventually("it is reading", async || {
                (service.counted("WAITING_FOR_ORDER").await > 0).then_some(())
            })
            .await;
            let (code, took) = service.terminate().await;
            sent.send(()).unwrap();
            (code, took)
        };
        let ((), (code, took)) = tokio::join!(load, stop);
        assert_eq!(code, Some(0));
        assert!(took < AT_ONCE, "{took:?}");
        // It has ended, so this is all that it will ever ack.
        let left = payments.consumer().await.unwrap().num_ack_pending;
        assert_eq!(left, 0, "delivered, and neither acked nor given back");
    }
    let service = Service::start(&database, &payments).await;
    payments.drained().await;
    assert_eq!(service.counter("orderd_redeliveries_total", "").await, 0);
    service.terminate().await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// What can't be recorded any more isn't kept either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stopping_service_cannot_record_is_given_back_at_once() {
    let mut server = Postgres::start().unwrap();
    let (database, payments) = (Database::on(&server).await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "before").await;
    server.stop().unwrap();
    publish(&payments, 1).await;
    eventually("it has the message in hand", async || {
        (payments.consumer().await?.num_ack_pending == 1).then_some(())
    })
    .await;
    eventually("it knows that the database is away", async || {
        (service.get("/readyz").await?.0 == 503).then_some(())
    })
    .await;
    assert_eq!(service.terminate().await.0, Some(0));
    server.start_again().unwrap();
    let begun = std::time::Instant::now();
    let service = Service::start(&database, &payments).await;
    payments.drained().await;
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(service.counted("WAITING_FOR_ORDER").await, 1);
}

/// Two instances under load; one is stopped. No message is redelivered because its ack was late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_leaves_no_message_to_the_time_out() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let stays = Service::start(&database, &payments).await;
    let mut leaves = Service::start(&database, &payments).await;
    let mut number = 0;
    let mut redelivered = 0;
    for _ in 0..3 {
        let (sent, mut told) = tokio::sync::oneshot::channel();
        let load = async {
            let mut ticks = tokio::time::interval(TICK);
            while told.try_recv().is_err() {
                ticks.tick().await;
                for _ in 0..PER_TICK {
                    let subject = format!("{}.acme", payments.subject);
                    let body = event(
                        "succeeded",
                        &format!("tx{number}"),
                        &format!("O{number}"),
                        1000,
                    );
                    let client = payments.context.client();
                    client.publish(subject, body.into()).await.unwrap();
                    number += 1;
                }
            }
        };
        let restart = async {
            eventually("it takes part", async || {
                (leaves.counted("WAITING_FOR_ORDER").await > 100).then_some(())
            })
            .await;
            redelivered += leaves.counter("orderd_redeliveries_total", "").await;
            assert_eq!(leaves.terminate().await.0, Some(0));
            let next = Service::start(&database, &payments).await;
            sent.send(()).unwrap();
            next
        };
        let ((), next) = tokio::join!(load, restart);
        leaves = next;
    }
    payments.drained().await;
    let both = async |name: &str| stays.counter(name, "").await + leaves.counter(name, "").await;
    assert_eq!(redelivered + both("orderd_redeliveries_total").await, 0);
    assert_eq!(both("orderd_consumer_recreated_total").await, 0);
    let mut rows = database.connect().await;
    let (count,): (i64,) = sqlx::query_as("SELECT count(*) FROM payments")
        .fetch_one(&mut rows)
        .await
        .unwrap();
    assert_eq!(usize::try_from(count).unwrap(), number);
}
