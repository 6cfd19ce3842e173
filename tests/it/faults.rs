//! What breaks around the service, and what must not break with it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use order_testkit::{Nats, Postgres};
use sqlx::Connection as _;

use crate::support::{Database, Payments, Service, audit, event, eventually};

/// While the claim of a batch waits for a lock, nothing is committed: nothing may be acked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_acked_after_its_commit_and_not_before() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;

    let (mut locker, mut watcher) = (database.connect().await, database.connect().await);
    let mut lock = locker.begin().await.unwrap();
    sqlx::query("LOCK TABLE payments IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *lock)
        .await
        .unwrap();
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    eventually("the claim waits for the lock", async || {
        let waiting: (i64,) = sqlx::query_as(
            "SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .fetch_one(&mut watcher)
        .await
        .unwrap();
        (waiting.0 > 0).then_some(())
    })
    .await;
    // A round trip behind whatever the service has sent the broker by now.
    let info = payments.consumer().await.unwrap();
    assert_eq!(
        (info.num_ack_pending, info.ack_floor.stream_sequence),
        (1, 0)
    );
    lock.rollback().await.unwrap();

    service.paid("O1").await;
    payments.drained().await;
    assert_eq!(audit(&database).0, Some(0));
}

/// A refusal of the data is blamed on the one message that has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_message_that_the_database_refuses_does_not_hold_up_the_others() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    let mut past = database.connect().await;
    sqlx::query("ALTER TABLE payments ADD CHECK (transaction_id NOT LIKE 'poison%')")
        .execute(&mut past)
        .await
        .unwrap();
    for number in 0..20 {
        service.create(&format!("O{number}")).await;
        let transaction = if number == 7 {
            "poison".to_owned()
        } else {
            format!("tx{number}")
        };
        payments
            .publish(event(
                "succeeded",
                &transaction,
                &format!("O{number}"),
                1000,
            ))
            .await;
    }
    payments.drained().await;
    for number in (0..20).filter(|number| *number != 7) {
        service.paid(&format!("O{number}")).await;
    }
    assert_eq!(service.status("O7").await.unwrap().0, "NOT_PAID");
    let letters: Vec<(String,)> = sqlx::query_as("SELECT reason FROM dead_letters")
        .fetch_all(&mut past)
        .await
        .unwrap();
    assert_eq!(letters, [("refused-by-database".to_owned(),)]);
    assert_eq!(service.counted("DEAD_LETTER").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_loses_nothing_and_makes_no_dead_letter() {
    let mut server = Postgres::start().unwrap();
    let (database, payments) = (Database::on(&server).await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    for number in 0..50 {
        service.create(&format!("O{number}")).await;
    }
    server.stop().unwrap();
    for number in 0..50 {
        payments
            .publish(event(
                "succeeded",
                &format!("tx{number}"),
                &format!("O{number}"),
                1000,
            ))
            .await;
    }
    payments.publish("not understood").await;
    eventually("the service says that it is not ready", async || {
        let (status, body) = service.get("/readyz").await?;
        (status == 503 && body["checks"]["database"] == "down").then_some(())
    })
    .await;
    assert_eq!(
        payments.consumer().await.unwrap().ack_floor.stream_sequence,
        0
    );
    server.start_again().unwrap();
    for number in 0..50 {
        service.paid(&format!("O{number}")).await;
    }
    payments.drained().await;
    assert_eq!(service.counted("DEAD_LETTER").await, 1);
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// Shorter than the patience of a test.
const ACK_WAIT: Duration = Duration::from_secs(29);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_with_messages_in_hand_loses_none() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let mut service = Service::start(&database, &payments).await;
    for number in 0..200 {
        service.create(&format!("O{number}")).await;
    }
    for number in 0..200 {
        payments
            .publish(event(
                "succeeded",
                &format!("tx{number}"),
                &format!("O{number}"),
                1000,
            ))
            .await;
        if number % 50 == 25 {
            service.kill().await;
            service = Service::start(&database, &payments).await;
        }
    }
    // What died unacked comes again after `ack_wait`, which is longer than a test waits at once.
    for number in 0..200 {
        let id = format!("O{number}");
        if tokio::time::timeout(ACK_WAIT, service.paid(&id))
            .await
            .is_err()
        {
            service.paid(&id).await;
        }
    }
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_restarts_is_read_from_again() {
    let mut server = Nats::start().unwrap();
    let database = Database::sqlite();
    let payments = Payments::on(server.url()).await;
    let service = Service::start(&database, &payments).await;
    for round in 0..3 {
        let id = format!("O{round}");
        service.create(&id).await;
        payments
            .publish(event("succeeded", &format!("tx{round}"), &id, 1000))
            .await;
        service.paid(&id).await;
        if round == 1 {
            server.stop().unwrap();
            eventually("the service says that it is not ready", async || {
                let (status, body) = service.get("/readyz").await?;
                (status == 503 && body["checks"]["broker"] == "down").then_some(())
            })
            .await;
        } else {
            server.kill().unwrap();
        }
        server.start_again().unwrap();
    }
    payments.drained().await;
    assert_eq!(service.counted("APPLIED").await, 3);
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_that_a_dead_process_left_waiting_are_settled() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    service.paid("O1").await;
    service.terminate().await;
    // As if the process had died between the commit and the settling.
    for statement in [
        "UPDATE payments SET verdict = 'WAITING_FOR_ORDER'",
        "UPDATE orders SET status = 'NOT_PAID', version = 1, paid_provider = NULL,
                paid_transaction_id = NULL",
        "DELETE FROM transitions WHERE version = 2",
    ] {
        database.tamper(statement).await;
    }
    let service = Service::start(&database, &payments).await;
    service.paid("O1").await;
    service.terminate().await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// What a health check would see, and how long it took.
async fn turns(service: &Service, status: u16, within: Duration) -> Duration {
    let begun = Instant::now();
    let turned = eventually("readiness turns", async || {
        (service.get("/readyz").await?.0 == status).then_some(begun.elapsed())
    })
    .await;
    assert!(
        turned <= within,
        "readiness took {turned:?} to turn {status}"
    );
    turned
}

/// The kernel still answers for a stopped process: its connections are half open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_behind_a_half_open_link_is_noticed_and_read_from_again() {
    let mut server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    server.pause().unwrap();
    turns(&service, 503, Duration::from_secs(20)).await;
    server.resume().unwrap();
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    let begun = Instant::now();
    service.paid("O1").await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    turns(&service, 200, Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_swallows_everything_is_noticed_and_its_connections_are_replaced() {
    let mut server = Postgres::start().unwrap();
    let (database, payments) = (Database::on(&server).await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    server.pause().unwrap();
    payments
        .publish(event("succeeded", "tx1", "O1", 1000))
        .await;
    turns(&service, 503, Duration::from_secs(20)).await;
    let replaced = async || {
        service
            .log()
            .contains("database connections replaced")
            .then_some(())
    };
    eventually("the connections are replaced", replaced).await;
    server.resume().unwrap();
    service.paid("O1").await;
    turns(&service, 200, Duration::from_secs(10)).await;
    payments.drained().await;
    assert_eq!(service.counted("DEAD_LETTER").await, 0);
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// As if the broker had come back from a copy that lacks the last messages.
async fn a_stream_that_lost_its_messages_is_read_on(mut server: Nats) {
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    for number in 0..5 {
        service.create(&format!("O{number}")).await;
    }
    for number in 0..4 {
        let body = event(
            "succeeded",
            &format!("tx{number}"),
            &format!("O{number}"),
            1000,
        );
        payments.publish(body).await;
    }
    payments.drained().await;
    let consumer = payments.consumer().await.unwrap();
    let told = consumer.delivered.stream_sequence;
    assert!(told >= 4, "{told}");
    server.kill().unwrap();
    let folder = server.folder().unwrap();
    let messages = find(folder, &payments.stream).join("msgs");
    for entry in std::fs::read_dir(&messages).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    server.start_again().unwrap();
    payments
        .publish(event("succeeded", "tx4", "O4", 1000))
        .await;
    service.paid("O4").await;
    assert_eq!(service.counted("APPLIED").await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_lost_its_messages_is_read_from_its_new_beginning() {
    a_stream_that_lost_its_messages_is_read_on(Nats::start().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_does_one_of_an_old_nats_server() {
    let server = Nats::start_with(&Nats::old_program().unwrap()).unwrap();
    a_stream_that_lost_its_messages_is_read_on(server).await;
}

/// The folder of a stream in a server's store.
fn find(folder: &Path, stream: &str) -> PathBuf {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.ends_with(Path::new("streams").join(stream)) {
                return path;
            }
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    panic!("no store of {stream}")
}
