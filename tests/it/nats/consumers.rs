//! Durable consumers that another client created or changed.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, PriorityPolicy, PullConsumer, pull};
use futures_util::StreamExt as _;

use super::{pays, recreated};
use crate::support::{Database, PATIENCE, Payments, Service, event, eventually};

fn named() -> pull::Config {
    pull::Config {
        durable_name: Some("orderd".to_owned()),
        ..pull::Config::default()
    }
}

async fn publish(payments: &Payments, orders: std::ops::Range<usize>) {
    for number in orders {
        let paid = event(
            "succeeded",
            &format!("tx{number}"),
            &format!("O{number}"),
            1000,
        );
        payments.publish(paid).await;
    }
}

/// Takes this many messages, and answers each with `kind`.
async fn take(consumer: &PullConsumer, count: usize, kind: Option<AckKind>) {
    let batch = consumer
        .fetch()
        .max_messages(count)
        .messages()
        .await
        .unwrap();
    let messages: Vec<_> = batch.map(Result::unwrap).collect().await;
    assert_eq!(messages.len(), count);
    for message in messages {
        if let Some(kind) = kind {
            message.double_ack_with(kind).await.unwrap();
        }
    }
}

async fn all_paid(service: &Service, orders: std::ops::Range<usize>) {
    for number in orders {
        service.create(&format!("O{number}")).await;
        service.paid(&format!("O{number}")).await;
    }
}

/// On nats-server 2.9.10 an update of the filter makes the consumer pass over everything from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_another_filter_is_made_again_and_nothing_is_passed_over() {
    for filter in ["", "acme", "other"] {
        let (database, payments) = (Database::sqlite(), Payments::new().await);
        let stream = payments.make_stream(|_| ()).await;
        let mut config = named();
        if !filter.is_empty() {
            config.filter_subject = format!("{}.{filter}", payments.subject);
        }
        let consumer = stream.create_consumer(config).await.unwrap();
        publish(&payments, 0..5).await;
        if filter != "other" {
            take(&consumer, 2, Some(AckKind::Ack)).await;
        }
        let service = Service::start(&database, &payments).await;
        all_paid(&service, 0..5).await;
        pays(&service, &payments, "after").await;
        assert!(service.log().contains("they are repaired"), "{filter}");
        assert_eq!(recreated(&service).await, 1, "{filter}");
    }
}

/// As an operator's tool leaves it: the last change gave it the right filter, and on 2.9.10 it passes over
/// everything, in silence. What a consumer gave up after too many deliveries looks the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_passed_over_messages_is_noticed_and_made_again() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let stream = payments.make_stream(|_| ()).await;
    let right = pull::Config {
        filter_subject: format!("{}.>", payments.subject),
        ..named()
    };
    let consumer: Consumer<pull::Config> = if payments.since(2, 10) {
        let gives_up = pull::Config {
            max_deliver: 1,
            ack_wait: Duration::from_millis(100),
            ..right
        };
        let consumer = stream.create_consumer(gives_up).await.unwrap();
        publish(&payments, 0..3).await;
        take(&consumer, 3, None).await;
        consumer
    } else {
        stream.create_consumer(named()).await.unwrap();
        let consumer = stream.create_consumer(right).await.unwrap();
        publish(&payments, 0..3).await;
        // The pull is what makes it pass over them.
        let pull = consumer.batch().max_messages(3);
        let pulled = pull.expires(Duration::from_millis(500)).messages();
        assert_eq!(pulled.await.unwrap().count().await, 0);
        consumer
    };
    eventually("it passed over them", async || {
        let info = consumer.get_info().await.unwrap();
        (info.delivered.stream_sequence == 3 && info.num_ack_pending == 0).then_some(())
    })
    .await;
    let service = Service::start(&database, &payments).await;
    all_paid(&service, 0..3).await;
    assert_eq!(recreated(&service).await, 1);
    assert!(service.log().contains("it passed over message 1"));
    pays(&service, &payments, "after").await;
}

/// Another subject of the stream isn't read, and a consumer that passed over it isn't astray.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_subjects_of_the_stream_are_passed_over_as_they_should_be() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let other = payments.subject.replace("events", "other");
    payments
        .make_stream(|config| config.subjects.push(other.clone()))
        .await;
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "before").await;
    for _ in 0..5 {
        let sent = payments.context.publish(other.clone(), "x".into()).await;
        sent.unwrap().await.unwrap();
    }
    // It is looked at, and looked at again after that had its effect.
    let asked = format!("$JS.API.CONSUMER.INFO.{}.orderd", payments.stream);
    let looks = payments.context.client().subscribe(asked).await.unwrap();
    let looked = tokio::time::timeout(PATIENCE, looks.take(3).collect::<Vec<_>>());
    assert_eq!(looked.await.unwrap().len(), 3);
    pays(&service, &payments, "after").await;
    assert_eq!(recreated(&service).await, 0);
    assert_eq!(service.counted("DUPLICATE").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_priority_policy_is_taken_away() {
    use PriorityPolicy::{Overflow, PinnedClient, Prioritized};

    for policy in [Overflow, PinnedClient, Prioritized] {
        let (database, payments) = (Database::sqlite(), Payments::new().await);
        if !payments.since(2, 12) {
            return;
        }
        let stream = payments.make_stream(|_| ()).await;
        let config = pull::Config {
            priority_policy: policy.clone(),
            priority_groups: vec!["a".to_owned()],
            filter_subject: format!("{}.>", payments.subject),
            ..named()
        };
        stream.create_consumer(config).await.unwrap();
        let service = Service::start(&database, &payments).await;
        pays(&service, &payments, "O1").await;
        let config = payments.consumer().await.unwrap().config;
        assert_eq!(config.priority_policy, PriorityPolicy::None, "{policy:?}");
    }
}

/// It is paused on purpose, so it stays paused, and the service reports why no message comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_consumer_is_the_reason_why_the_service_is_not_ready() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    if !payments.since(2, 11) {
        return;
    }
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "before").await;
    let stream = payments.context.get_stream(&payments.stream).await.unwrap();
    let later = time::OffsetDateTime::from_unix_timestamp(4_000_000_000).unwrap();
    stream.pause_consumer("orderd", later).await.unwrap();
    service
        .because("consumer-unusable", &["orderd", "paused until 2096"])
        .await;
    assert!(payments.consumer().await.unwrap().paused);
    stream.resume_consumer("orderd").await.unwrap();
    service.ready_again().await;
    pays(&service, &payments, "after").await;
}

/// If it is deleted again and again, everything would be delivered again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_is_deleted_again_and_again_is_made_again_slower_each_time() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "O1").await;
    let stream = payments.context.get_stream(&payments.stream).await.unwrap();
    for round in 1..=3 {
        stream.delete_consumer("orderd").await.unwrap();
        eventually("it is made again, and counted", async || {
            (recreated(&service).await == round).then_some(())
        })
        .await;
        eventually("it is read", async || {
            (service.counted("DUPLICATE").await == round).then_some(())
        })
        .await;
    }
    let log = service.log();
    assert!(log.contains("was recreated a moment ago and is left alone"));
    pays(&service, &payments, "O2").await;
}

/// A service that can't have another one must not delete the one that there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_could_not_be_made_again_is_left_alone_and_named() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let stream = payments
        .make_stream(|config| config.max_consumers = 1)
        .await;
    let wrong = pull::Config {
        ack_policy: AckPolicy::All,
        filter_subject: format!("{}.>", payments.subject),
        ..named()
    };
    let made = stream.create_consumer(wrong).await.unwrap();
    let service = Service::start_unready(&database, &payments).await;
    service
        .because(
            "consumer-unusable",
            &[
                "orderd",
                "ack_policy is All",
                "maximum consumers limit reached",
            ],
        )
        .await;
    let found = payments.consumer().await.unwrap();
    assert_eq!(found.created, made.cached_info().created);
    assert_eq!(recreated(&service).await, 0);
    // Its owner takes it away.
    stream.delete_consumer("orderd").await.unwrap();
    service.ready_again().await;
    pays(&service, &payments, "O1").await;
}
