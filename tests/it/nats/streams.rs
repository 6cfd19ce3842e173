//! Streams that an operator changes while the service runs. The service never changes them.

use async_nats::jetstream::stream::{Config, SubjectTransform};
use order_testkit::Nats;

use super::pays;
use crate::support::{Database, Payments, Service};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_nothing_comes_through_is_the_reason_why_the_service_is_not_ready() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    pays(&service, &payments, "before").await;
    let config = async |name: &str| {
        let stream = payments.context.get_stream(name).await.unwrap();
        stream.cached_info().config.clone()
    };

    let right = config("ORDERS").await;
    let silent = Config {
        no_ack: true,
        ..right.clone()
    };
    payments.context.update_stream(&silent).await.unwrap();
    service
        .because("stream-unusable", &["ORDERS", "no_ack"])
        .await;
    payments.context.update_stream(&right).await.unwrap();
    service.ready_again().await;

    if payments.since(2, 10) {
        let right = config(&payments.stream).await;
        let moved = Config {
            subject_transform: Some(SubjectTransform {
                source: ">".to_owned(),
                destination: "elsewhere.>".to_owned(),
            }),
            ..right.clone()
        };
        payments.context.update_stream(&moved).await.unwrap();
        service
            .because("stream-unusable", &["subject_transform stores"])
            .await;
        payments.context.update_stream(&right).await.unwrap();
        service.ready_again().await;

        let right = config("ORDERS").await;
        let moved = Config {
            subject_transform: Some(SubjectTransform {
                source: "orders.events.>".to_owned(),
                destination: "elsewhere.>".to_owned(),
            }),
            ..right.clone()
        };
        payments.context.update_stream(&moved).await.unwrap();
        service
            .because(
                "stream-unusable",
                &[
                    "ORDERS",
                    "subject_transform stores orders.events.> as elsewhere.>",
                ],
            )
            .await;
        payments.context.update_stream(&right).await.unwrap();
        service.ready_again().await;
    }

    let fewer = Config {
        subjects: vec!["orders.events.paid".to_owned()],
        ..config("ORDERS").await
    };
    payments.context.update_stream(&fewer).await.unwrap();
    service
        .because(
            "stream-unusable",
            &[
                "ORDERS",
                "subjects",
                "orders.events.>",
                "orders.events.paid",
            ],
        )
        .await;
    payments.context.update_stream(&right).await.unwrap();
    service.ready_again().await;

    // This can't be undone.
    let sealed = Config {
        sealed: true,
        ..right
    };
    payments.context.update_stream(&sealed).await.unwrap();
    service
        .because("stream-unusable", &["ORDERS is sealed"])
        .await;
    assert!(config("ORDERS").await.sealed);
}
