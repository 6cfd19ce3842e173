//! One bad thing stops only itself: its message is held, everything else goes on.

use std::time::{Duration, Instant};

use order_testkit::Proxy;
use sqlx::Connection as _;

use crate::support::{Database, Payments, Service, audit, event, eventually};

/// Orders `first..first + count`, and the bodies of their payments.
async fn orders(service: &Service, first: u32, count: u32) -> Vec<String> {
    for number in first..first + count {
        service.create(&format!("O{number}")).await;
    }
    let payments = (first..first + count).map(|number| {
        event(
            "succeeded",
            &format!("tx{number}"),
            &format!("O{number}"),
            1000,
        )
    });
    payments.collect()
}

/// Waits until so many messages are held and nothing else is left.
async fn held(service: &Service, payments: &Payments, count: u64) {
    eventually("so many messages are held, and only those", async || {
        let info = payments.consumer().await?;
        let held = service.counter("orderd_held_messages", "").await;
        (held == count && info.num_pending == 0 && info.num_ack_pending as u64 == count)
            .then_some(())
    })
    .await;
    eventually("readiness says so", async || {
        let (status, body) = service.get("/readyz").await?;
        let reasons = body["reasons"].as_array()?;
        let held = reasons
            .iter()
            .find(|reason| reason["reason"] == "held-messages")?;
        let detail = held["detail"].as_str()?;
        (status == 503 && detail.starts_with(&format!("{count} message(s)"))).then_some(())
    })
    .await;
}

/// Waits until nothing is held any more, and everything is acked.
async fn released(service: &mut Service, payments: &Payments, database: &Database) {
    service.ready().await;
    payments.drained().await;
    assert_eq!(service.counter("orderd_held_messages", "").await, 0);
    assert_eq!(audit(database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// How often the log says so.
fn said(service: &Service, what: &str) -> usize {
    service
        .log()
        .lines()
        .filter(|line| line.contains(what))
        .count()
}

async fn an_unreadable_order_holds_up_nothing_but_its_own_payment(database: Database) {
    let payments = Payments::new().await;
    let service = Service::start(&database, &payments).await;
    let bodies = orders(&service, 0, 100).await;
    service.terminate().await;
    // First, in the middle, last of one batch.
    database
        .damage("UPDATE orders SET currency = 'eur' WHERE order_id IN ('O0', 'O50', 'O99')")
        .await;
    payments.publish_all(bodies).await;

    let mut service = Service::start_unready(&database, &payments).await;
    held(&service, &payments, 3).await;
    assert_eq!(service.counted("APPLIED").await, 97);
    assert_eq!(service.counted("DEAD_LETTER").await, 0);
    for number in [1, 49, 51, 98] {
        service.paid(&format!("O{number}")).await;
    }
    // Others go on, and another bad message doesn't stop them.
    payments.publish_all(orders(&service, 100, 20).await).await;
    payments
        .publish(event("succeeded", "again", "O50", 1000))
        .await;
    for number in 100..120 {
        service.paid(&format!("O{number}")).await;
    }
    held(&service, &payments, 4).await;
    // Said once for each message, however often it was tried since.
    assert_eq!(said(&service, "message held back"), 4);
    assert_eq!(said(&service, r#""row.id":"O99""#), 2, "row and message");

    database
        .damage("UPDATE orders SET currency = 'EUR' WHERE order_id IN ('O0', 'O50', 'O99')")
        .await;
    released(&mut service, &payments, &database).await;
    for number in [0, 50, 99] {
        service.paid(&format!("O{number}")).await;
    }
    assert_eq!(service.counted("APPLIED").await, 120);
    assert_eq!(service.counted("SECOND_PAYMENT").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_order_holds_up_nothing_but_its_own_payment_in_postgres() {
    let database = Database::postgres().await;
    an_unreadable_order_holds_up_nothing_but_its_own_payment(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_order_holds_up_nothing_but_its_own_payment_in_sqlite() {
    an_unreadable_order_holds_up_nothing_but_its_own_payment(Database::sqlite()).await;
}

/// A right that was taken away: what is understood goes on, what is not waits for it.
async fn dead_letters_that_are_refused_hold_up_nothing(
    database: Database,
    refuse: &[&str],
    permit: &str,
) {
    let payments = Payments::new().await;
    let mut service = Service::start(&database, &payments).await;
    let bodies = orders(&service, 0, 6).await;
    for statement in refuse {
        execute(&database, statement).await;
    }
    for (number, body) in bodies.into_iter().enumerate() {
        payments.publish(body).await;
        payments.publish(format!("not understood {number}")).await;
    }
    held(&service, &payments, 6).await;
    for number in 0..6 {
        service.paid(&format!("O{number}")).await;
    }
    payments.publish_all(orders(&service, 6, 1).await).await;
    service.paid("O6").await;
    assert_eq!(said(&service, "message held back"), 6);

    execute(&database, permit).await;
    released(&mut service, &payments, &database).await;
    assert_eq!(service.counted("DEAD_LETTER").await, 6);
}

async fn execute(database: &Database, statement: &str) {
    if database.url.starts_with("sqlite") {
        let mut file = sqlx::SqliteConnection::connect(&database.url)
            .await
            .unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()))
            .execute(&mut file)
            .await
            .unwrap();
        file.close().await.unwrap();
    } else {
        let mut connection = database.connect().await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned()))
            .execute(&mut connection)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_are_refused_hold_up_nothing_in_postgres() {
    let refuse = [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE 'permission denied' USING ERRCODE = '42501'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON dead_letters FOR EACH ROW EXECUTE FUNCTION refuse()",
    ];
    let permit = "DROP TRIGGER refuse ON dead_letters";
    dead_letters_that_are_refused_hold_up_nothing(Database::postgres().await, &refuse, permit)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_are_refused_hold_up_nothing_in_sqlite() {
    let refuse = [
        "CREATE TRIGGER refuse BEFORE INSERT ON dead_letters BEGIN SELECT RAISE(ABORT, 'no'); END",
    ];
    let permit = "DROP TRIGGER refuse";
    dead_letters_that_are_refused_hold_up_nothing(Database::sqlite(), &refuse, permit).await;
}

/// Another session keeps one row locked, as a forgotten one does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_stays_locked_holds_up_nothing_but_its_own_payment() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    let bodies = orders(&service, 0, 8).await;
    service.terminate().await;
    payments.publish_all(bodies).await;
    let mut forgotten = database.connect().await;
    let mut lock = forgotten.begin().await.unwrap();
    sqlx::query("SELECT FROM orders WHERE order_id = 'O3' FOR UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let mut service = Service::start_unready(&database, &payments).await;
    for number in (0..8).filter(|number| *number != 3) {
        eventually(
            "the order is paid, a long wait for a lock later",
            async || {
                service.paid(&format!("O{number}")).await;
                Some(())
            },
        )
        .await;
    }
    held(&service, &payments, 1).await;
    lock.rollback().await.unwrap();
    service.paid("O3").await;
    released(&mut service, &payments, &database).await;
}

/// A database that needs 10 ms per payment: a batch of all of them passes the limit of a statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_too_large_for_its_limits_is_recorded_in_smaller_ones() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let service = Service::start(&database, &payments).await;
    service.create("O0").await;
    service.terminate().await;
    for statement in [
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$",
        "CREATE TRIGGER slow BEFORE INSERT ON payments FOR EACH ROW EXECUTE FUNCTION slow()",
    ] {
        execute(&database, statement).await;
    }
    let bodies = (0..700).map(|number| event("succeeded", &format!("tx{number}"), "O0", 1000));
    payments.publish_all(bodies).await;
    let service = Service::start_unready(&database, &payments).await;
    payments.drained().await;
    assert_eq!(service.counted("SECOND_PAYMENT").await, 699);
    assert!(said(&service, "batch size changed") > 0);
    assert_eq!(said(&service, "database connections replaced"), 0);
    assert_eq!(said(&service, "held back"), 0);
}

/// 4 ms for each round trip: what needs one per payment never gets to its commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_second_payments_are_recorded_over_a_slow_link() {
    let (mut database, payments) = (Database::postgres().await, Payments::new().await);
    let direct = database.url.clone();
    let (proxy, url) = Proxy::before(&direct).unwrap();
    database.url = url;
    let service = Service::start(&database, &payments).await;
    service.create("O0").await;
    payments.publish(event("succeeded", "tx", "O0", 1000)).await;
    service.paid("O0").await;
    proxy.set_delay(Duration::from_millis(2));
    let bodies = (0..4000).map(|number| event("succeeded", &format!("tx{number}"), "O0", 1000));
    payments.publish_all(bodies).await;
    payments.drained().await;
    assert_eq!(service.counted("SECOND_PAYMENT").await, 4000);
    assert_eq!(said(&service, "pulling stops"), 0);
    proxy.set_delay(Duration::ZERO);
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// What is held when the service stops is with the next instance at once, not after `ack_wait`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_messages_are_given_back_when_the_service_stops() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let service = Service::start(&database, &payments).await;
    let bodies = orders(&service, 0, 2).await;
    database
        .damage("UPDATE orders SET currency = 'eur' WHERE order_id = 'O1'")
        .await;
    payments.publish_all(bodies).await;
    held(&service, &payments, 1).await;
    let (code, _) = service.terminate().await;
    assert_eq!(code, Some(0));
    database
        .damage("UPDATE orders SET currency = 'EUR' WHERE order_id = 'O1'")
        .await;
    let begun = Instant::now();
    let mut service = Service::start_unready(&database, &payments).await;
    service.paid("O1").await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    released(&mut service, &payments, &database).await;
}

/// Messages that are held when the process dies are redelivered, and known ones don't become new findings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_payment_that_cannot_be_read_holds_back_its_repetition() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let mut service = Service::start(&database, &payments).await;
    let bodies = orders(&service, 0, 3).await;
    payments.publish(bodies[1].clone()).await;
    service.paid("O1").await;
    database
        .damage("UPDATE payments SET currency = 'eur' WHERE order_id = 'O1'")
        .await;
    payments.publish_all(bodies).await;
    service.paid("O0").await;
    service.paid("O2").await;
    held(&service, &payments, 1).await;
    database
        .damage("UPDATE payments SET currency = 'EUR' WHERE order_id = 'O1'")
        .await;
    released(&mut service, &payments, &database).await;
    assert_eq!(service.counted("DUPLICATE").await, 1);
}
