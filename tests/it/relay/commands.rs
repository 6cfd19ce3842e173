//! The commands for after a loss: order events again, payment events again.

use order_testkit::Nats;

use super::{Beside, STREAM, eventually_stored, ids, run};
use crate::support::{Database, Payments, Service, audit, event, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_published_again_to_a_lost_stream() {
    const ORDERS: usize = 700;
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    let beside = Beside::new(&database);
    for number in 0..ORDERS {
        let id = format!("O{number}");
        beside.create(&id).await;
        beside.cancel(&id, "changed my mind").await;
    }
    eventually_stored(&payments, &ids(0..ORDERS, 2)).await;
    beside.drained().await;

    payments.context.delete_stream(STREAM).await.unwrap();
    let again = ["republish", "--since", "2020-01-01T00:00:00Z"];
    let (code, said) = run(&again, &database, &payments);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("1400 order event(s)") && said.contains("running service"),
        "{said}"
    );
    eventually_stored(&payments, &ids(0..ORDERS, 2)).await;
    service.kill().await;

    // Its lease has not run out: the command doesn't take a dead process for a living one.
    payments.context.delete_stream(STREAM).await.unwrap();
    let (code, said) = run(&again, &database, &payments);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1400 event(s) published"), "{said}");
    eventually_stored(&payments, &ids(0..ORDERS, 2)).await;

    let (code, said) = run(
        &["republish", "--since", "2090-01-01T00:00:00Z"],
        &database,
        &payments,
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("0 order event(s)"), "{said}");
    for wrong in [
        &["republish"][..],
        &["republish", "--since", "yesterday"],
        &["republish", "--since", "2020-01-01x00:00:00Z"],
    ] {
        assert_eq!(run(wrong, &database, &payments).0, Some(2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payment_events_are_consumed_again_while_no_service_runs() {
    const ORDERS: usize = 30;
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    let beside = Beside::new(&database);
    for number in 0..ORDERS {
        let id = format!("O{number}");
        beside.create(&id).await;
        payments
            .publish(event("succeeded", &format!("tx{number}"), &id, 1000))
            .await;
    }
    payments.drained().await;
    let again = ["reconsume", "--since", "2020-01-01T00:00:00Z"];
    let (code, said) = run(&again, &database, &payments);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("in use"), "{said}");
    assert_eq!(
        payments.consumer().await.unwrap().num_pending,
        0,
        "nothing has changed"
    );
    service.terminate().await;

    // An event that arrived while no service consumed isn't passed over, however late the start is.
    beside.create("late").await;
    payments
        .publish(event("succeeded", "late", "late", 1000))
        .await;
    let now = order_app::time_format::format(order_app::clock::now());
    let (code, said) = run(&["reconsume", "--since", &now], &database, &payments);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("not consumed yet") && said.contains("1 message(s)"),
        "{said}"
    );
    let (code, said) = run(&again, &database, &payments);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("31 message(s)"), "{said}");
    let config = payments.consumer().await.unwrap().config;
    assert_eq!((config.max_deliver, config.ack_wait.as_secs()), (-1, 30));

    let service = Service::start(&database, &payments).await;
    service.paid("late").await;
    eventually("what is known is a duplicate", async || {
        (service.counted("DUPLICATE").await == ORDERS as u64).then_some(())
    })
    .await;
    assert!(
        !service.log().contains("they are repaired"),
        "the start of a consumer is no difference"
    );
    service.terminate().await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));

    let (code, said) = run(
        &["reconsume", "--since", "2090-01-01T00:00:00Z"],
        &database,
        &payments,
    );
    assert_eq!(code, Some(1), "{said}");
}
