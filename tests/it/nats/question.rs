//! A stream that captures the questions to the payment service answers each with its ack.

use order_testkit::Nats;
use serde_json::json;

use crate::support::{Database, Payments, Service, configure, eventually, orderd};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_that_a_stream_takes_refuses_the_start() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let root = payments.subject.split('.').next().unwrap();
    let subjects = format!("{root}.>");
    let asked = format!("{root}.query");
    payments
        .make_stream(|config| config.subjects = vec![subjects.clone()])
        .await;
    Service::start(&database, &payments).await.terminate().await;
    for command in ["serve", "reconcile"] {
        let mut command = orderd(&[command]);
        let ended = configure(&mut command, &database, &payments)
            .env("ORDERD_PAYMENT_QUERY", format!("nats:{asked}"))
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(1));
        let said = String::from_utf8(ended.stderr).unwrap();
        // One line reports it; a line about the closed connection may follow.
        let parts = ["ORDERD_PAYMENT_QUERY", &payments.stream, &subjects, &asked];
        let says_all = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(said.lines().any(says_all), "{said}");
    }
    // Visible in the settings alone.
    let mut command = orderd(&["serve"]);
    let ended = configure(&mut command, &database, &payments)
        .env(
            "ORDERD_PAYMENT_QUERY",
            format!("nats:{}.query", payments.subject),
        )
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_takes_the_questions_later_heals_and_cancels_nothing_and_is_named() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let asks = [
        ("ORDERD_PAYMENT_QUERY", "nats:payments.query"),
        ("ORDERD_CHECK_AFTER", "1s"),
        ("ORDERD_RECONCILE_EVERY", "1s"),
    ];
    let service = Service::start_with(&database, &payments, &asks).await;
    service.ready_again().await;
    let takes_all = async_nats::jetstream::stream::Config {
        name: "EVERYTHING".to_owned(),
        subjects: vec!["payments.>".to_owned()],
        ..Default::default()
    };
    payments.context.create_stream(takes_all).await.unwrap();
    let overdue = json!({"order_id": "O1", "amount": 1000, "currency": "EUR", "pay_by": "2020-01-01T00:00:00Z"});
    let (status, answer) = service.post("/v1/orders", &overdue).await;
    assert_eq!(status, 201, "{answer}");
    eventually("the question was answered by the stream", async || {
        let log = service.log();
        log.contains("stream EVERYTHING captures the questions")
            .then_some(())
    })
    .await;
    service
        .because(
            "payment-query-captured",
            &["EVERYTHING", "payments.>", "payments.query"],
        )
        .await;
    assert_eq!(service.status("O1").await, Some(("NOT_PAID".to_owned(), 1)));
    let (status, answer) = service.post("/v1/orders/O1/cancel", &json!({})).await;
    assert_eq!(status, 409, "{answer}");
    assert_eq!(answer["type"], "/problems/payment-state-unknown");
    let count = service
        .counter("orderd_reconciliation_total", "outcome=\"healed\"")
        .await;
    assert_eq!(count, 0);

    payments.context.delete_stream("EVERYTHING").await.unwrap();
    service.ready_again().await;
}
