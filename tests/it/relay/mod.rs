//! What happened to orders reaches the outbound stream: all of it, in order, under its own id.
//!
//! Each test has a nats-server of its own, so that the stream may have its usual name.

mod blocked;
mod commands;
mod set_back;

use std::collections::BTreeMap;

use async_nats::jetstream::consumer::pull::OrderedConfig;
use async_nats::jetstream::stream::Config;
use futures_util::StreamExt as _;
use order_drill::{Names, Plan, PlanOptions, Progress, RunOptions};
use order_fsm::{Content, OrderEvent, PaymentKey, PaymentKind};
use order_store::{
    Batch, NewOrder, Operation, PaymentFact, RefusedAs, Source, Store, StoreOptions,
};
use order_testkit::Nats;
use serde_json::Value;
use sqlx::Connection as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::support::{Database, Payments, Service, audit, configure, event, eventually, orderd};

const STREAM: &str = "ORDERS";
const SUBJECTS: &str = "orders.events.>";
const SIGABRT: i32 = 6;

/// The messages in the outbound stream, in order: transitions as `order/version`, exceptions by their id. The
/// id of a transition's message ends with its time.
async fn stored(payments: &Payments) -> Vec<String> {
    let Ok(stream) = payments.context.get_stream(STREAM).await else {
        return Vec::new();
    };
    let count = stream.cached_info().state.messages;
    let consumer = stream
        .create_consumer(OrderedConfig::default())
        .await
        .unwrap();
    let messages = consumer.messages().await.unwrap();
    let ids = messages
        .take(usize::try_from(count).unwrap())
        .map(|message| {
            let message = message.unwrap();
            let headers = message.headers.as_ref().unwrap();
            let id = headers.get("Nats-Msg-Id").unwrap().as_str();
            let event: Value = serde_json::from_slice(&message.payload).unwrap();
            if event["event"] == "payment.exception" {
                return id.to_owned();
            }
            let at = OffsetDateTime::parse(event["at"].as_str().unwrap(), &Rfc3339).unwrap();
            let name = format!(
                "{}/{}",
                event["order_id"].as_str().unwrap(),
                event["version"]
            );
            assert_eq!(id, format!("{name}/{}", at.unix_timestamp_nanos() / 1000));
            name
        });
    ids.collect().await
}

/// Waits until exactly these ids are in the stream, whatever came twice; their first events are in
/// version order.
async fn eventually_stored(payments: &Payments, expected: &[String]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    eventually("every event is stored", async || {
        let mut found = stored(payments).await;
        let mut last: BTreeMap<&str, i64> = BTreeMap::new();
        for id in &found {
            let (order, version) = id.split_once('/').unwrap();
            let version: i64 = version.parse().unwrap();
            let last = last.entry(order).or_default();
            assert!(
                version <= *last + 1,
                "{id} was published before its predecessor: {found:?}"
            );
            *last = (*last).max(version);
        }
        found.sort_unstable();
        found.dedup();
        (found == expected).then_some(())
    })
    .await;
}

/// The database beside the service.
struct Beside(Store);

impl Beside {
    fn new(database: &Database) -> Self {
        Self(Store::open(
            &database.url.parse().unwrap(),
            StoreOptions::default(),
        ))
    }

    async fn migrated(database: &Database) -> Self {
        let beside = Self::new(database);
        beside.0.migrate().await.unwrap();
        beside
    }

    async fn create(&self, order_id: &str) {
        let new = NewOrder {
            order_id: order_id.parse().unwrap(),
            amount: 1000.try_into().unwrap(),
            currency: "EUR".parse().unwrap(),
            pay_by: None,
            actor: "shop".to_owned(),
        };
        self.0.create_order(new).await.unwrap();
    }

    async fn cancel(&self, order_id: &str, reason: &str) {
        self.operate(order_id, OrderEvent::Cancel, reason).await;
    }

    async fn ship(&self, order_id: &str) {
        self.operate(order_id, OrderEvent::Ship, "packed").await;
    }

    async fn operate(&self, order_id: &str, event: OrderEvent, reason: &str) {
        let operation = Operation {
            order_id: order_id.parse().unwrap(),
            event,
            source: Source::Api,
            actor: "shop".to_owned(),
            reason: Some(reason.to_owned()),
            if_version: None,
            refused_as: RefusedAs {
                illegal: "illegal-transition",
                money_held: "payment-recorded",
            },
        };
        self.0.operate(operation).await.unwrap();
    }

    /// A payment of another amount than the order's.
    async fn mismatch(&self, order_id: &str) {
        let fact = PaymentFact {
            key: PaymentKey {
                provider: "acme".parse().unwrap(),
                transaction_id: format!("tx-{order_id}").parse().unwrap(),
                kind: PaymentKind::Succeeded,
            },
            event_id: None,
            content: Content {
                order_id: order_id.parse().unwrap(),
                amount: 999.try_into().unwrap(),
                currency: "EUR".parse().unwrap(),
            },
            occurred_at: OffsetDateTime::UNIX_EPOCH,
            livemode: true,
            source: Source::Event,
        };
        let batch = Batch {
            facts: vec![fact],
            dead_letters: Vec::new(),
        };
        self.0.record_payments(batch).await.unwrap();
    }

    async fn unpublished(&self) -> i64 {
        self.0.outbox_gauges().await.unwrap().unpublished
    }

    async fn drained(&self) {
        eventually("nothing is unpublished", async || {
            (self.unpublished().await == 0).then_some(())
        })
        .await;
    }
}

fn ids(orders: impl IntoIterator<Item = usize>, versions: i64) -> Vec<String> {
    orders
        .into_iter()
        .flat_map(|number| (1..=versions).map(move |version| format!("O{number}/{version}")))
        .collect()
}

fn publishes(service: &Service) -> bool {
    service
        .log()
        .contains("this instance publishes order events")
}

async fn published(service: &Service) -> u64 {
    service.counter("orderd_published_events_total", "").await
}

async fn tells_a_drill(database: Database) {
    let server = Nats::start().unwrap();
    let payments = Payments::on(server.url()).await;
    let service = Service::start(&database, &payments).await;
    let plan = Plan::generate(&PlanOptions {
        orders: 200,
        ..PlanOptions::default()
    });
    let options = RunOptions {
        http: service.http.clone(),
        nats: payments.server.clone(),
        names: Names {
            inbound_stream: payments.stream.clone(),
            inbound_subject: payments.subject.clone(),
            ..Names::default()
        },
        events: true,
        ..RunOptions::default()
    };
    let report = order_drill::run(&options, &plan, &Progress::default())
        .await
        .unwrap();
    assert_eq!(report.differences.total(), 0, "{:#?}", report.differences);
    Beside::new(&database).drained().await;
    assert_eq!(service.counter("orderd_set_aside_events", "").await, 0);
    assert_eq!(service.terminate().await.0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_and_exception_of_a_drill_is_published_on_postgres() {
    tells_a_drill(Database::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_and_exception_of_a_drill_is_published_on_sqlite() {
    tells_a_drill(Database::sqlite()).await;
}

/// While its row can't be deleted, the process dies: published, but not known to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_events_that_are_still_in_the_outbox_are_published_again_under_the_same_id() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let beside = Beside::migrated(&database).await;
    beside.create("O0").await;
    let mut locker = database.connect().await;
    let mut lock = locker.begin().await.unwrap();
    sqlx::query("SELECT seq FROM outbox FOR UPDATE")
        .execute(&mut *lock)
        .await
        .unwrap();
    let service = Service::start(&database, &payments).await;
    eventually_stored(&payments, &ids(0..1, 1)).await;
    assert_eq!(beside.unpublished().await, 1);
    service.kill().await;
    lock.rollback().await.unwrap();

    let service = Service::start(&database, &payments).await;
    beside.drained().await;
    eventually("it is counted", async || {
        (published(&service).await == 1).then_some(())
    })
    .await;
    assert_eq!(
        stored(&payments).await,
        ids(0..1, 1),
        "the broker knew the id"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_anywhere_in_the_relay_leaves_nothing_untold() {
    let points = [
        "relay:read",
        "relay:published",
        "trying:before-commit",
        "trying:after-commit",
        "concluding:before-commit",
        "concluding:after-commit",
    ];
    // Each waits for the lease of a dead process, so they wait together.
    let runs = points
        .iter()
        .flat_map(|point| [(*point, true), (*point, false)]);
    let runs = runs.map(|(point, postgres)| async move {
        let server = Nats::start().unwrap();
        let payments = Payments::on(server.url()).await;
        let database = if postgres {
            Database::postgres().await
        } else {
            Database::sqlite()
        };
        let beside = Beside::migrated(&database).await;
        for number in 0..20 {
            beside.create(&format!("O{number}")).await;
            beside
                .cancel(&format!("O{number}"), "changed my mind")
                .await;
        }
        let dying = [("CRASH_POINT", point)];
        let mut service = Service::start_with(&database, &payments, &dying).await;
        assert_eq!(service.died().await, Some(SIGABRT), "{point}");
        let _service = Service::start(&database, &payments).await;
        eventually_stored(&payments, &ids(0..20, 2)).await;
        beside.drained().await;
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_under_load_leaves_nothing_untold() {
    const ORDERS: usize = 600;
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let beside = Beside::migrated(&database).await;
    let mut service = Service::start(&database, &payments).await;
    for number in 0..ORDERS {
        let id = format!("O{number}");
        beside.create(&id).await;
        payments
            .publish(event("succeeded", &format!("tx{number}"), &id, 1000))
            .await;
        if number % 200 == 100 {
            service.kill().await;
            service = Service::start(&database, &payments).await;
        }
    }
    // What was in the hands of a killed process comes again after 30 s; a new event doesn't.
    for number in 0..ORDERS {
        payments
            .publish(event(
                "succeeded",
                &format!("tx{number}"),
                &format!("O{number}"),
                1000,
            ))
            .await;
    }
    eventually_stored(&payments, &ids(0..ORDERS, 2)).await;
    beside.drained().await;
    service.terminate().await;
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_instances_one_publishes_and_the_other_follows_it() {
    const ORDERS: usize = 300;
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let one = Service::start(&database, &payments).await;
    eventually("the first one publishes", async || {
        publishes(&one).then_some(())
    })
    .await;
    let two = Service::start(&database, &payments).await;
    let beside = Beside::new(&database);
    for number in 0..ORDERS {
        beside.create(&format!("O{number}")).await;
    }
    eventually_stored(&payments, &ids(0..ORDERS, 1)).await;
    beside.drained().await;
    eventually("each event is counted once", async || {
        (published(&one).await == ORDERS as u64).then_some(())
    })
    .await;
    assert!(!publishes(&two));
    assert_eq!(published(&two).await, 0);

    // A holder that stops gives the lease back.
    assert_eq!(one.terminate().await.0, Some(0));
    beside.cancel("O0", "changed my mind").await;
    let mut expected = ids(0..ORDERS, 1);
    expected.push("O0/2".to_owned());
    eventually_stored(&payments, &expected).await;
    assert!(publishes(&two));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_wait_for_a_stream_that_is_gone_or_anothers() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    service.create("O0").await;
    eventually_stored(&payments, &ids(0..1, 1)).await;

    payments.context.delete_stream(STREAM).await.unwrap();
    service.create("O1").await;
    eventually_stored(&payments, &ids(1..2, 1)).await;

    // Another stream takes the subjects.
    payments.context.delete_stream(STREAM).await.unwrap();
    let other = Config {
        name: "OTHER".to_owned(),
        subjects: vec![SUBJECTS.to_owned()],
        ..Config::default()
    };
    payments.context.create_stream(other).await.unwrap();
    service.create("O2").await;
    eventually("it is said that events wait", async || {
        let waits = service.counter("orderd_unpublished_events", "").await == 1;
        let status = service.get("/readyz").await?.0;
        (waits && status == 503 && service.log().contains("order events not published"))
            .then_some(())
    })
    .await;
    let other = payments.context.get_stream("OTHER").await.unwrap();
    assert_eq!(
        other.cached_info().state.messages,
        0,
        "the other stream got nothing"
    );

    payments.context.delete_stream("OTHER").await.unwrap();
    eventually_stored(&payments, &ids(2..3, 1)).await;
    eventually("it is ready again", async || {
        (service.get("/readyz").await?.0 == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_the_stream_finds_too_large_holds_up_no_other() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let beside = Beside::migrated(&database).await;
    let small = Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECTS.to_owned()],
        max_message_size: 500,
        ..Config::default()
    };
    payments.context.create_stream(small).await.unwrap();
    beside.create("O0").await;
    beside.cancel("O0", &"because ".repeat(100)).await;
    beside.create("O1").await;
    let service = Service::start(&database, &payments).await;
    eventually_stored(&payments, &["O0/1".to_owned(), "O1/1".to_owned()]).await;
    eventually("it is said what was set aside", async || {
        let aside = service.counter("orderd_set_aside_events", "").await == 1;
        (aside && service.log().contains("set aside")).then_some(())
    })
    .await;
    beside.drained().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_published_while_the_relay_is_off_and_everything_later() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let beside = Beside::migrated(&database).await;
    beside.create("O0").await;
    let off = Service::start_with(&database, &payments, &[("ORDERD_RELAY", "off")]).await;
    eventually("it is ready all the same", async || {
        (off.get("/readyz").await?.0 == 200).then_some(())
    })
    .await;
    assert!(off.log().contains("ORDERD_RELAY is off"));
    payments
        .publish(event("succeeded", "tx0", "O0", 1000))
        .await;
    payments.drained().await;
    assert!(stored(&payments).await.is_empty());
    assert_eq!(beside.unpublished().await, 2);
    assert_eq!(beside.0.lease_holder("outbox").await.unwrap(), None);
    off.kill().await;

    let _service = Service::start(&database, &payments).await;
    eventually_stored(&payments, &ids(0..1, 2)).await;
}

/// Runs a command to its end; returns its exit code and output.
fn run(arguments: &[&str], database: &Database, payments: &Payments) -> (Option<i32>, String) {
    let mut command = orderd(arguments);
    let ended = configure(&mut command, database, payments)
        .output()
        .unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (ended.status.code(), String::from_utf8(said).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbound_stream_in_memory_refuses_the_start() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let memory = Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECTS.to_owned()],
        storage: async_nats::jetstream::stream::StorageType::Memory,
        ..Config::default()
    };
    payments.context.create_stream(memory).await.unwrap();
    let (code, said) = run(&["serve"], &database, &payments);
    assert_eq!(code, Some(1), "{said}");
    let last = said.lines().last().unwrap();
    for part in [STREAM, "storage", "file", "Memory"] {
        assert!(last.contains(part), "{last}");
    }
}
