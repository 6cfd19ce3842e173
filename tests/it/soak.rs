//! Minutes under a steady load of payments, while rows are damaged or instances restarted.
//!
//! `scripts/soak` says which one and for how long; without it there is nothing to do.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use order_testkit::Postgres;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, MissedTickBehavior};

use crate::support::{Database, Payments, Service, audit, eventually};

/// Healthy payments per second.
const RATE: u32 = 1000;

/// How often the generator publishes; each time its share of the rate.
const TICK: Duration = Duration::from_millis(10);

/// How long the load goes on without any fault, to compare with.
const UNDISTURBED: Duration = Duration::from_secs(30);

/// One damaged row or refused message of each kind comes this often.
const POISON_EVERY: Duration = Duration::from_secs(1);

/// An instance is restarted this often.
const RESTART_EVERY: Duration = Duration::from_secs(10);

/// No payment may be recorded later than this after its publish while instances are restarted.
const LATEST: f64 = 2.0;

fn seconds(scenario: &str) -> Option<Duration> {
    if std::env::var("ORDERD_SOAK").as_deref() != Ok(scenario) {
        eprintln!("not run: scripts/soak runs it");
        return None;
    }
    let seconds = std::env::var("ORDERD_SOAK_SECONDS").unwrap();
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_of_every_kind_holds_up_no_healthy_payment() {
    let Some(duration) = seconds("poison") else {
        return;
    };
    let server = Postgres::start().unwrap();
    let (database, payments) = (Database::on(&server).await, Payments::new().await);
    let quiet = [("ORDERD_LOG", "info")];
    let mut service = Service::start_with(&database, &payments, &quiet).await;
    service.ready().await;
    let mut past = database.connect().await;
    loosen(&mut past).await;

    let mut load = Load::new(&payments, "calm");
    load.prepare(&mut past, UNDISTURBED).await;
    load.run(UNDISTURBED, TICK).await;
    load.all_paid(&mut past).await;
    let calm = delays(&mut past, "calm").await;

    let mut load = Load::new(&payments, "mixed");
    load.prepare(&mut past, duration).await;
    let ((), poisoned) = tokio::join!(
        load.run(duration, TICK),
        poison(&service, &payments, &database, duration)
    );
    load.all_paid(&mut past).await;
    let mixed = delays(&mut past, "mixed").await;

    let (status, ready) = service.get("/readyz").await.unwrap();
    let held = service.counter("orderd_held_messages", "").await;
    let unreadable = service.counter("orderd_unreadable_rows", "").await;
    let (code, findings) = audit(&database);
    let reported = findings.lines().filter(|line| line.contains("A6")).count() as u64;
    eprintln!(
        "{}",
        json!({"healthy": load.published, "poisoned_rounds": poisoned, "calm": calm, "mixed": mixed,
               "readyz": status, "ready": ready, "held": held, "unreadable": unreadable, "a6_lines": reported})
    );
    assert_eq!(status, 503);
    assert!(ready.to_string().contains("held"), "{ready}");
    assert!(
        held > 0 && unreadable > 0,
        "held {held}, unreadable {unreadable}"
    );
    assert_eq!(code, Some(3));
    assert!(
        reported >= 4 * poisoned,
        "{reported} lines for {poisoned} rounds:\n{findings}"
    );
    assert!(
        mixed[1] <= 3.0 * calm[1].max(0.005),
        "p99 {mixed:?} beside poison, {calm:?} without"
    );

    repair(&mut past).await;
    eventually(
        "what was held is recorded once the rows are repaired",
        async || (service.counter("orderd_held_messages", "").await == 0).then_some(()),
    )
    .await;
    payments.drained().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restarts_delay_no_payment() {
    let Some(duration) = seconds("rolling") else {
        return;
    };
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let quiet = [("ORDERD_LOG", "info")];
    let mut instances = Vec::new();
    for _ in 0..2 {
        let mut service = Service::start_with(&database, &payments, &quiet).await;
        service.ready().await;
        instances.push(service);
    }
    let mut past = database.connect().await;
    let mut load = Load::new(&payments, "rolling");
    load.prepare(&mut past, duration).await;

    let restarts = async {
        let end = Instant::now() + duration;
        let mut restarts = 0;
        while Instant::now() + RESTART_EVERY < end {
            tokio::time::sleep(RESTART_EVERY).await;
            let (code, took) = instances.remove(0).terminate().await;
            assert_eq!(code, Some(0));
            assert!(
                took < Duration::from_secs(12),
                "an instance took {took:?} to stop"
            );
            let mut service = Service::start_with(&database, &payments, &quiet).await;
            service.ready().await;
            instances.push(service);
            restarts += 1;
        }
        restarts
    };
    let ((), restarts) = tokio::join!(load.run(duration, TICK), restarts);
    load.all_paid(&mut past).await;
    payments.drained().await;
    let delays = delays(&mut past, "rolling").await;
    eprintln!(
        "{}",
        json!({"payments": load.published, "restarts": restarts, "delay_seconds": delays})
    );
    let effects: (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(DISTINCT order_id) FROM transitions WHERE event = 'pay'",
    )
    .fetch_one(&mut past)
    .await
    .unwrap();
    let published = i64::try_from(load.published).unwrap();
    assert_eq!(
        effects,
        (published, published),
        "each payment moved its order once"
    );
    let (code, findings) = audit(&database);
    assert_eq!(code, Some(0), "{findings}");
    assert!(restarts > 0, "nothing was restarted");
    assert!(
        delays[2] <= LATEST,
        "a payment was recorded late: {delays:?}"
    );
}

/// Publishes one payment per prepared order at a steady rate, whatever the service does.
struct Load<'a> {
    payments: &'a Payments,
    name: &'static str,
    published: u64,
}

impl<'a> Load<'a> {
    fn new(payments: &'a Payments, name: &'static str) -> Self {
        Self {
            payments,
            name,
            published: 0,
        }
    }

    /// Creates the orders past the service, which would take longer than paying them.
    async fn prepare(&self, past: &mut PgConnection, duration: Duration) {
        let count = i64::try_from(duration.as_secs()).unwrap() * i64::from(RATE);
        for statement in [
            "INSERT INTO orders (order_id, status, amount, currency, version, pay_by, created_at, updated_at)
             SELECT $1 || '-' || n, 'NOT_PAID', 1000, 'EUR', 1, now() + interval '1 hour', now(), now()
               FROM generate_series(0, $2 - 1) n",
            "INSERT INTO transitions (order_id, version, to_status, event, source, actor, at, published_at)
             SELECT $1 || '-' || n, 1, 'NOT_PAID', 'create', 'api', 'soak', now(), now()
               FROM generate_series(0, $2 - 1) n",
        ] {
            sqlx::query(statement)
                .bind(self.name)
                .bind(count)
                .execute(&mut *past)
                .await
                .unwrap();
        }
        sqlx::raw_sql("ANALYZE").execute(&mut *past).await.unwrap();
    }

    async fn run(&mut self, duration: Duration, tick: Duration) {
        let mut ticks = tokio::time::interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let started = Instant::now();
        let mut acks = FuturesUnordered::new();
        let subject = format!("{}.acme", self.payments.subject);
        while started.elapsed() < duration {
            ticks.tick().await;
            let due = started.elapsed().min(duration).as_secs_f64() * f64::from(RATE);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            let due = due as u64;
            while self.published < due {
                let body = paid_now(&format!("{}-{}", self.name, self.published));
                let ack = self.payments.context.publish(subject.clone(), body.into());
                let ack = ack.await.expect("a private broker takes what is published");
                acks.push(ack.into_future());
                self.published += 1;
            }
            while acks.len() > 500 {
                acks.next().await.unwrap().expect("the stream acks");
            }
        }
        while let Some(ack) = acks.next().await {
            ack.expect("the stream acks");
        }
    }

    async fn all_paid(&self, past: &mut PgConnection) {
        eventually("every healthy order is paid", async || {
            let paid: (i64,) = sqlx::query_as(
                "SELECT count(*) FROM orders WHERE order_id LIKE $1 || '-%' AND status = 'PAID'",
            )
            .bind(self.name)
            .fetch_one(&mut *past)
            .await
            .unwrap();
            (paid.0 == i64::try_from(self.published).unwrap()).then_some(())
        })
        .await;
    }
}

fn paid_now(order_id: &str) -> String {
    paid(order_id, order_id)
}

fn paid(transaction_id: &str, order_id: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "when this test publishes")]
    let now = OffsetDateTime::now_utc();
    json!({
        "event_id": transaction_id, "type": "payment.succeeded", "order_id": order_id, "provider": "acme",
        "transaction_id": transaction_id, "amount": 1000, "currency": "EUR",
        "occurred_at": now.format(&Rfc3339).unwrap(),
    })
    .to_string()
}

/// From publish to record, in seconds: median, 99th percentile, maximum.
async fn delays(past: &mut PgConnection, name: &str) -> [f64; 3] {
    let found: (f64, f64, f64) = sqlx::query_as(
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY delay),
                percentile_cont(0.99) WITHIN GROUP (ORDER BY delay),
                max(delay)
           FROM (SELECT extract(epoch FROM received_at - occurred_at)::float8 AS delay
                   FROM payments WHERE order_id LIKE $1 || '-%') delays",
    )
    .bind(name)
    .fetch_one(past)
    .await
    .unwrap();
    [found.0, found.1, found.2]
}

/// Takes the guards away that keep such rows out, as an operator's hand or another version might.
async fn loosen(past: &mut PgConnection) {
    sqlx::raw_sql(
        "DO $$ DECLARE c record; BEGIN
             FOR c IN SELECT conrelid::regclass AS owner, conname FROM pg_constraint
                       WHERE contype = 'c' AND conrelid IN ('orders'::regclass, 'payments'::regclass) LOOP
                 EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.owner, c.conname);
             END LOOP;
         END $$;
         ALTER TABLE dead_letters ADD CONSTRAINT refuses_poison CHECK (position('poison'::bytea IN body) = 0) NOT VALID;",
    )
    .execute(past)
    .await
    .unwrap();
}

/// Once per round: a damaged order, one of a status of the future, a damaged payment that comes again, a damaged payment
/// that waits for an order, and a message whose dead letter is refused. Returns the number of rounds.
async fn poison(
    service: &Service,
    payments: &Payments,
    database: &Database,
    duration: Duration,
) -> u64 {
    let mut past = database.connect().await;
    let started = Instant::now();
    let mut ticks = tokio::time::interval(POISON_EVERY);
    let mut round = 0;
    while started.elapsed() < duration {
        ticks.tick().await;
        let name = |kind: &str| format!("bad-{kind}-{round}");
        for kind in ["currency", "future", "known"] {
            service.create(&name(kind)).await;
        }
        payments.publish(paid(&name("known"), &name("known"))).await;
        payments.publish(paid(&name("waits"), &name("waits"))).await;
        service.paid(&name("known")).await;
        eventually("the payment waits for its order", async || {
            let (_, found) = service
                .get(&format!("/v1/orders/{}/payments", name("waits")))
                .await?;
            (found["items"].as_array()?.len() == 1).then_some(())
        })
        .await;
        for (statement, id) in [
            (
                "UPDATE orders SET currency = 'eur' WHERE order_id = $1",
                name("currency"),
            ),
            (
                "UPDATE orders SET status = 'LOST' WHERE order_id = $1",
                name("future"),
            ),
            (
                "UPDATE payments SET currency = 'eur' WHERE order_id = $1",
                name("known"),
            ),
            (
                "UPDATE payments SET source = 'rumour' WHERE order_id = $1",
                name("waits"),
            ),
        ] {
            let changed = sqlx::query(AssertSqlSafe(statement))
                .bind(&id)
                .execute(&mut past)
                .await
                .unwrap();
            assert_eq!(changed.rows_affected(), 1, "{id}");
        }
        for kind in ["currency", "future", "known"] {
            payments.publish(paid(&name(kind), &name(kind))).await;
        }
        payments.publish(format!("poison {round}")).await;
        let order: Value = json!({"order_id": name("waits"), "amount": 1000, "currency": "EUR"});
        let (status, answer) = service.post("/v1/orders", &order).await;
        assert!(status < 300 || status == 503, "{answer}");
        round += 1;
    }
    round
}

async fn repair(past: &mut PgConnection) {
    sqlx::raw_sql(
        "UPDATE orders SET currency = 'EUR' WHERE currency = 'eur';
         UPDATE orders SET status = 'NOT_PAID' WHERE status = 'LOST';
         UPDATE payments SET currency = 'EUR' WHERE currency = 'eur';
         UPDATE payments SET source = 'event' WHERE source = 'rumour';
         ALTER TABLE dead_letters DROP CONSTRAINT refuses_poison;",
    )
    .execute(past)
    .await
    .unwrap();
}
