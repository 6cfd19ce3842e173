//! Accounts, servers and streams that allow less than is wished for.

use std::time::Duration;

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::ConsumerLimits;
use order_testkit::Nats;

use super::{pays, recreated, unready};
use crate::support::{Database, Payments, Service, event};

const LIMITED: &str = r#"jetstream { limits { max_request_batch: 7, max_ack_pending: 100, duplicate_window: "60s" } }"#;

/// Batches of 1 would be many times slower for no visible reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_grants_less_is_worked_with_and_that_is_said() {
    let server = Nats::start_configured(LIMITED).unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let first = Service::start(&database, &payments).await;
    let made = payments.consumer().await.unwrap();
    assert_eq!(
        (made.config.max_ack_pending, made.config.max_batch),
        (100, 7)
    );
    let window = async |name: &str| {
        let stream = payments.context.get_stream(name).await.unwrap();
        stream.cached_info().config.duplicate_window
    };
    assert_eq!(window(&payments.stream).await, Duration::from_mins(1));
    assert_eq!(window("ORDERS").await, Duration::from_mins(1));
    first.terminate().await;

    for number in 0..300 {
        let paid = event(
            "succeeded",
            &format!("tx{number}"),
            &format!("O{number}"),
            1000,
        );
        payments.publish(paid).await;
    }
    let service = Service::start(&database, &payments).await;
    payments.drained().await;
    assert_eq!(service.counted("WAITING_FOR_ORDER").await, 300);
    let batches = service.counter("orderd_batch_size_count", "").await;
    assert!(batches <= 300 / 7, "{batches} batches of 300 messages");
    // The consumer was made once, and nothing recreated it.
    assert_eq!(payments.consumer().await.unwrap().created, made.created);
    assert_eq!(recreated(&service).await, 0);
    assert_eq!(service.counter("orderd_redeliveries_total", "").await, 0);
    assert!(service.counter("orderd_consumer_limited", "").await >= 2);
    let log = service.log();
    let said = log
        .lines()
        .find(|line| line.contains("consumer granted less than is wanted"))
        .unwrap();
    for part in ["max_ack_pending is 100", "max_batch is 7"] {
        assert!(said.contains(part), "{said}");
    }
}

/// A working durable isn't deleted because it has less than is wished for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_that_works_with_less_stays() {
    let server = Nats::start_configured(LIMITED).unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let stream = payments.make_stream(|_| ()).await;
    let less = pull::Config {
        durable_name: Some("orderd".to_owned()),
        filter_subject: format!("{}.>", payments.subject),
        max_ack_pending: 50,
        ..pull::Config::default()
    };
    let made = stream.create_consumer(less).await.unwrap();
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "O1").await;
    let found = payments.consumer().await.unwrap();
    assert_eq!(found.created, made.cached_info().created);
    assert_eq!(found.config.max_ack_pending, 100, "as much as there is");
    assert_eq!(recreated(&service).await, 0);
}

/// They are written into every consumer of the stream, so asking again changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_consumer_limits_of_a_stream_are_accepted() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    if !payments.since(2, 10) {
        return;
    }
    let limits = ConsumerLimits {
        inactive_threshold: Duration::from_mins(5),
        max_ack_pending: 1000,
    };
    payments
        .make_stream(|config| config.consumer_limits = Some(limits))
        .await;
    let service = Service::start(&database, &payments).await;
    let made = payments.consumer().await.unwrap();
    assert_eq!(made.config.max_ack_pending, 1000);
    assert_eq!(made.config.inactive_threshold, Duration::from_mins(5));
    for round in 0..5 {
        pays(&service, &payments, &format!("O{round}")).await;
    }
    service.terminate().await;
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "again").await;
    assert_eq!(payments.consumer().await.unwrap().created, made.created);
    assert_eq!(recreated(&service).await, 0);
    assert_eq!(service.counted("DUPLICATE").await, 0);
}

/// How large a stream may become is for its owner to decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_whose_streams_need_a_size_is_named() {
    let server = Nats::start_configured(
        r"
        accounts { A {
            jetstream { max_file: 1GB, max_bytes_required: true }
            users: [ { user: any, password: any } ]
        } }
        no_auth_user: any
        ",
    )
    .unwrap();
    let (_database, payments, service) = unready(&server).await;
    service
        .because("stream-unusable", &["could not be created", "max bytes"])
        .await;
    payments
        .make_stream(|config| config.max_bytes = 1 << 20)
        .await;
    let orders = async_nats::jetstream::stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.events.>".to_owned()],
        max_bytes: 1 << 20,
        ..Default::default()
    };
    payments.context.create_stream(orders).await.unwrap();
    service.ready_again().await;
    pays(&service, &payments, "O1").await;
}

/// A single server can't keep three copies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_the_broker_does_not_have_are_named() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let more = [("ORDERD_STREAM_REPLICAS", "3")];
    let service = Service::start_with(&database, &payments, &more).await;
    service
        .because("stream-unusable", &["replicas > 1 not supported"])
        .await;
    service.terminate().await;

    // An existing stream has what it has.
    payments.make_stream(|_| ()).await;
    let orders = async_nats::jetstream::stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.events.>".to_owned()],
        ..Default::default()
    };
    payments.context.create_stream(orders).await.unwrap();
    let service = Service::start_with(&database, &payments, &more).await;
    service.ready_again().await;
    pays(&service, &payments, "O1").await;
    let log = service.log();
    let said = log
        .lines()
        .find(|line| line.contains("num_replicas"))
        .unwrap();
    assert!(
        said.contains("WARN") && said.contains(r#""wanted":"3""#),
        "{said}"
    );
}
