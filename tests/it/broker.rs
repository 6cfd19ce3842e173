//! What others do to streams and consumers, and what the service makes of it.

use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream::{Config, StorageType};

use crate::support::{Database, Payments, Service, audit, configure, event, eventually, orderd};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_event_to_two_instances_from_three_publishers_counts_once() {
    const ROUNDS: usize = 200;
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let one = Service::start(&database, &payments).await;
    let two = Service::start(&database, &payments).await;
    for round in 0..ROUNDS {
        one.create(&format!("O{round}")).await;
    }
    for round in 0..ROUNDS {
        let body = event(
            "succeeded",
            &format!("tx{round}"),
            &format!("O{round}"),
            1000,
        );
        let publish = || payments.publish(body.clone());
        tokio::join!(publish(), publish(), publish());
    }
    payments.drained().await;
    let both = async |verdict| one.counted(verdict).await + two.counted(verdict).await;
    eventually("every delivery is counted", async || {
        (both("APPLIED").await + both("DUPLICATE").await == 3 * ROUNDS as u64).then_some(())
    })
    .await;
    assert_eq!(both("APPLIED").await, ROUNDS as u64);
    for round in 0..ROUNDS {
        assert_eq!(
            two.status(&format!("O{round}")).await,
            Some(("PAID".to_owned(), 2))
        );
    }
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_messages_are_kept_aside_at_once_and_good_ones_flow() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    for number in 0..1001 {
        payments.publish(format!("poison {number}")).await;
    }
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    service.paid("O1").await;
    payments.drained().await;
    assert_eq!(service.counted("DEAD_LETTER").await, 1001);
    assert_eq!(service.counter("orderd_redeliveries_total", "").await, 0);
    eventually("the gauge of dead letters", async || {
        (service.counter("orderd_dead_letters_open", "").await == 1001).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_consumer_or_stream_is_made_again_and_old_events_are_duplicates() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    for number in 0..20 {
        service.create(&format!("O{number}")).await;
        payments
            .publish(event(
                "succeeded",
                &format!("tx{number}"),
                &format!("O{number}"),
                1000,
            ))
            .await;
    }
    payments.drained().await;

    payments
        .context
        .delete_consumer_from_stream("orderd", &payments.stream)
        .await
        .unwrap();
    eventually("all old events are duplicates", async || {
        (service.counted("DUPLICATE").await == 20).then_some(())
    })
    .await;

    payments
        .context
        .delete_stream(&payments.stream)
        .await
        .unwrap();
    service.create("O-new").await;
    payments
        .publish(event("succeeded", "tx-new", "O-new", 1000))
        .await;
    service.paid("O-new").await;
    assert_eq!(service.counted("APPLIED").await, 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_with_other_settings_is_put_right() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let stream = Config {
        name: payments.stream.clone(),
        subjects: vec![format!("{}.>", payments.subject)],
        ..Config::default()
    };
    let stream = payments.context.create_stream(stream).await.unwrap();
    let other = pull::Config {
        durable_name: Some("orderd".to_owned()),
        ack_wait: Duration::from_secs(1),
        max_deliver: 5,
        backoff: vec![Duration::from_millis(100), Duration::from_millis(200)],
        ..pull::Config::default()
    };
    stream.create_consumer(other).await.unwrap();
    let service = Service::start(&database, &payments).await;
    let config = payments.consumer().await.unwrap().config;
    assert_eq!(config.ack_wait, Duration::from_secs(30));
    assert_eq!((config.max_deliver, config.backoff.len()), (-1, 0));
    assert_eq!(config.filter_subject, format!("{}.>", payments.subject));
    assert!(service.log().contains("they are repaired"));
    service.create("O1").await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    service.paid("O1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_cannot_be_altered_is_made_again() {
    use async_nats::jetstream::consumer::{AckPolicy, ReplayPolicy, push};

    let ours = || pull::Config {
        durable_name: Some("orderd".to_owned()),
        ..pull::Config::default()
    };
    for number in 0..4 {
        let (database, payments) = (Database::sqlite(), Payments::new().await);
        let stream = Config {
            name: payments.stream.clone(),
            subjects: vec![format!("{}.>", payments.subject)],
            ..Config::default()
        };
        let stream = payments.context.create_stream(stream).await.unwrap();
        let made = match number {
            0 => stream
                .create_consumer(pull::Config {
                    ack_policy: AckPolicy::None,
                    ..ours()
                })
                .await
                .map(drop),
            1 => stream
                .create_consumer(pull::Config {
                    replay_policy: ReplayPolicy::Original,
                    ..ours()
                })
                .await
                .map(drop),
            2 => stream
                .create_consumer(pull::Config {
                    headers_only: true,
                    max_waiting: 1,
                    ..ours()
                })
                .await
                .map(drop),
            _ => {
                let push = push::Config {
                    durable_name: Some("orderd".to_owned()),
                    deliver_subject: "elsewhere".to_owned(),
                    ..push::Config::default()
                };
                stream.create_consumer(push).await.map(drop)
            }
        };
        made.unwrap();
        let service = Service::start(&database, &payments).await;
        service.create("O1").await;
        payments
            .publish(event("succeeded", "tx1", "O1", 1000))
            .await;
        service.paid("O1").await;
        payments.drained().await;
        assert!(service.log().contains("they are repaired"), "{number}");
    }
}

/// It stands ahead of its stream and would skip every message up to there in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_ahead_of_its_stream_is_noticed_and_made_again() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let stream = Config {
        name: payments.stream.clone(),
        subjects: vec![format!("{}.>", payments.subject)],
        ..Config::default()
    };
    let stream = payments.context.create_stream(stream).await.unwrap();
    let ahead = pull::Config {
        durable_name: Some("orderd".to_owned()),
        deliver_policy: DeliverPolicy::ByStartSequence {
            start_sequence: 1000,
        },
        filter_subject: format!("{}.>", payments.subject),
        ..pull::Config::default()
    };
    stream.create_consumer(ahead).await.unwrap();
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    service.paid("O1").await;
    // nats-server 2.9.10 starts such a consumer at the end of its stream, so it isn't ahead there.
    if payments.since(2, 10) {
        assert!(service.log().contains("but the stream ends at"));
        assert!(service.counter("orderd_consumer_recreated_total", "").await > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_in_memory_refuses_the_start_and_is_left_alone() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let stream = Config {
        name: payments.stream.clone(),
        subjects: vec![format!("{}.>", payments.subject)],
        storage: StorageType::Memory,
        ..Config::default()
    };
    payments.context.create_stream(stream).await.unwrap();
    let mut serve = orderd(&["serve"]);
    let ended = configure(&mut serve, &database, &payments)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    let last = said.lines().last().unwrap();
    for part in [payments.stream.as_str(), "storage", "file", "Memory"] {
        assert!(last.contains(part), "{last}");
    }
    let info = payments.context.get_stream(&payments.stream).await.unwrap();
    assert_eq!(info.cached_info().config.storage, StorageType::Memory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_before_its_order_is_applied_with_its_creation() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    payments
        .publish(event("succeeded", "tx9", "O9", 1000))
        .await;
    eventually("money without an order is visible", async || {
        let (_, list) = service
            .get("/v1/payments?verdict=WAITING_FOR_ORDER")
            .await?;
        (list["items"].as_array()?.len() == 1).then_some(())
    })
    .await;
    payments.drained().await;
    assert_eq!(service.status("O9").await, None);
    service.create("O9").await;
    assert_eq!(service.status("O9").await, Some(("PAID".to_owned(), 2)));
}

/// Headers that a server stores and a client can't read: each ends the connection it is delivered
/// over, the first one for good.
const UNREADABLE: [&[u8]; 5] = [
    b"A: b\rc",
    b"Trace: caf\xe9",
    b"Bad Name: x",
    b"no colon",
    "\u{e4}: 1".as_bytes(),
];

async fn publish_raw(payments: &Payments, headers: &[u8], body: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let server = payments.server.trim_start_matches("nats://");
    let mut link = tokio::net::TcpStream::connect(server).await.unwrap();
    let headers = [b"NATS/1.0\r\n", headers, b"\r\n\r\n"].concat();
    let total = headers.len() + body.len();
    let head = format!(
        "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nHPUB {}.acme {} {total}\r\n",
        payments.subject,
        headers.len()
    );
    let all = [head.as_bytes(), &headers, body.as_bytes(), b"\r\nPING\r\n"].concat();
    link.write_all(&all).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|four| four == b"PONG") {
        let mut bytes = [0; 4096];
        let count = link.read(&mut bytes).await.unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..count]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_headers_hold_up_nothing() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    Service::start(&database, &payments).await.terminate().await;
    let mut number = 0;
    let mut good = async |payments: &Payments| {
        number += 1;
        let body = event(
            "succeeded",
            &format!("good{number}"),
            &format!("G{number}"),
            1000,
        );
        payments.publish(body).await;
    };
    for (which, headers) in UNREADABLE.iter().enumerate() {
        good(&payments).await;
        let body = event(
            "succeeded",
            &format!("odd{which}"),
            &format!("H{which}"),
            1000,
        );
        publish_raw(&payments, headers, &body).await;
        publish_raw(&payments, headers, "not understood").await;
        good(&payments).await;
    }
    let service = Service::start(&database, &payments).await;
    payments.drained().await;
    for order in (1..=10)
        .map(|n| format!("G{n}"))
        .chain((0..5).map(|n| format!("H{n}")))
    {
        service.create(&order).await;
        service.paid(&order).await;
    }
    let (_, letters) = service.get("/v1/dead-letters").await.unwrap();
    let letters = letters["items"].as_array().unwrap();
    assert_eq!(letters.len(), 5);
    let first = letters
        .iter()
        .find(|letter| letter["sequence"] == 3)
        .unwrap();
    assert_eq!(first["headers"], serde_json::json!({"A": ["b\rc"]}));
    assert_eq!(service.get("/readyz").await.unwrap().0, 200);
    assert_eq!(service.terminate().await.0, Some(0));
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}
