//! Reconciliation as its users run it: inside `serve`, as a one-shot, over HTTP, against a payment
//! service over NATS and over HTTP.

use std::process::Output;
use std::time::{Duration, Instant};

use order_payment_mock::{Answer, Fault, Mock, Payment, RetryAfter, Script};
use serde_json::{Value, json};

use crate::support::{Database, PATIENCE, Payments, Service, audit, configure, eventually, orderd};

/// Orders are due at once and past `pay_by` a second after their creation.
const SOON: [(&str, &str); 3] = [
    ("ORDERD_CHECK_AFTER", "1s"),
    ("ORDERD_PAY_WITHIN", "1s"),
    ("ORDERD_LAST_CHECK_AFTER", "1s"),
];

fn paid(transaction_id: &str) -> Answer {
    Answer::paid(Payment::new("acme", transaction_id, 1000, "EUR"))
}

/// `orderd reconcile` with these settings, to its end.
async fn reconcile(
    database: &Database,
    payments: &Payments,
    flags: &[&str],
    more: &[(&str, &str)],
) -> Output {
    let mut arguments = vec!["reconcile"];
    arguments.extend(flags);
    let mut command = orderd(&arguments);
    configure(&mut command, database, payments)
        .envs(SOON)
        .envs(more.iter().copied());
    tokio::process::Command::from(command)
        .output()
        .await
        .unwrap()
}

fn run_of(output: &Output) -> Value {
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}\n{said}"))
}

async fn status(service: &Service, order_id: &str) -> String {
    service.status(order_id).await.unwrap().0
}

async fn has_status(service: &Service, order_id: &str, wanted: &str) {
    eventually(&format!("{order_id} is {wanted}"), async || {
        (status(service, order_id).await == wanted).then_some(())
    })
    .await;
}

async fn counts(database: Database, over_nats: bool) {
    let payments = Payments::new().await;
    let mut script = Script::all(Answer::unknown());
    script.set("LOST", paid("tx-lost"));
    script.set("GONE", Answer::unpaid_for_good());
    let (mock, query) = if over_nats {
        let subject = format!("query.{}", payments.stream);
        let mock = Mock::over_nats(script, &payments.server, &subject)
            .await
            .unwrap();
        (mock, format!("nats:{subject}"))
    } else {
        Mock::over_http(script).await.unwrap()
    };
    let query = [
        ("ORDERD_PAYMENT_QUERY", query.as_str()),
        ("ORDERD_RECONCILE_EVERY", "1s"),
    ];
    let settings: Vec<_> = SOON.iter().chain(&query).copied().collect();
    let service = Service::start_with(&database, &payments, &settings).await;
    for id in ["LOST", "GONE", "DARK"] {
        service.create(id).await;
    }
    has_status(&service, "LOST", "PAID").await;
    has_status(&service, "GONE", "CANCELLED").await;
    assert_eq!(status(&service, "DARK").await, "NOT_PAID");
    let (_, history) = service.get("/v1/orders/LOST/history").await.unwrap();
    assert_eq!(history["items"][1]["source"], "reconciliation");
    let (_, history) = service.get("/v1/orders/GONE/history").await.unwrap();
    assert_eq!(history["items"][1]["actor"], "orderd");
    let (_, payments_of) = service.get("/v1/orders/LOST/payments").await.unwrap();
    assert_eq!(payments_of["items"][0]["event_id"], Value::Null);
    let healed = service.counter("orderd_reconciliation_total", "outcome=\"healed\"");
    assert_eq!(healed.await, 1);
    // The run that healed it may still be under way: its figures come at its end.
    let found = |run: &Value| run["healed"] == 1 && run["findings"][0]["kind"] == "healed";
    eventually("a run reports what it healed", async || {
        let (_, runs) = service.get("/v1/reconciliations").await.unwrap();
        let mut runs = runs["items"].as_array().unwrap().iter();
        runs.any(found).then_some(())
    })
    .await;
    assert!(mock.asked().violation().is_none(), "{:?}", mock.asked());
    service.terminate().await;
    assert_eq!(audit(&database).0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_is_healed_over_nats() {
    counts(Database::postgres().await, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_is_healed_over_http() {
    counts(Database::sqlite(), false).await;
}

/// Beside a running `serve`, on the same SQLite file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_one_shot_says_what_it_did_and_a_dry_run_what_it_would_do() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut script = Script::all(Answer::unpaid_for_good());
    script.set("LOST", paid("tx-lost"));
    let (_mock, url) = Mock::over_http(script).await.unwrap();
    let query = [("ORDERD_PAYMENT_QUERY", url.as_str())];
    let off: Vec<_> = SOON
        .into_iter()
        .chain([("ORDERD_RECONCILE_EVERY", "off")])
        .collect();
    let service = Service::start_with(&database, &payments, &off).await;
    let nothing = reconcile(&database, &payments, &["--dry-run", "--json"], &query).await;
    assert_eq!(nothing.status.code(), Some(0), "{nothing:?}");
    for id in ["LOST", "GONE"] {
        service.create(id).await;
    }
    let rehearsed = eventually("both are due", async || {
        let output = reconcile(&database, &payments, &["--dry-run", "--json"], &query).await;
        (run_of(&output)["cancelled"] == 1 && run_of(&output)["healed"] == 1).then_some(output)
    })
    .await;
    assert_eq!(rehearsed.status.code(), Some(3));
    assert_eq!(run_of(&rehearsed)["dry_run"], true);
    assert_eq!(status(&service, "LOST").await, "NOT_PAID");

    let done = reconcile(&database, &payments, &[], &query).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let table = String::from_utf8(done.stdout).unwrap();
    for line in [
        "asked              2",
        "healed             1",
        "cancelled          1",
    ] {
        assert!(table.contains(line), "{table}");
    }
    assert!(table.contains("LOST\thealed\t"), "{table}");
    assert_eq!(status(&service, "LOST").await, "PAID");
    assert_eq!(status(&service, "GONE").await, "CANCELLED");
    let (_, runs) = service.get("/v1/reconciliations").await.unwrap();
    assert_eq!(runs["items"][0]["trigger"], "cli");
    service.terminate().await;
    assert_eq!(audit(&database).0, Some(0));
}

/// Two instances tick every second, one-shots come from outside all the time; the payment service
/// sends away who asks more than ten times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_and_one_shots_keep_the_rate_and_double_nothing() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    // Many small questions: a reply about more than one order can't be read.
    let mut script = Script::by(|id| match id.as_bytes().last() {
        Some(b'0'..=b'4') => paid(&format!("tx-{id}")),
        _ => Answer::unpaid_for_good(),
    });
    script.poison("POISON", Fault::Html);
    script.limit(10);
    let (mock, url) = Mock::over_http(script).await.unwrap();
    let query = [
        ("ORDERD_PAYMENT_QUERY", url.as_str()),
        ("ORDERD_RECONCILE_RATE", "10"),
    ];
    let every: Vec<_> = SOON
        .into_iter()
        .chain(query)
        .chain([("ORDERD_RECONCILE_EVERY", "1s")])
        .collect();
    let one = Service::start_with(&database, &payments, &every).await;
    let two = Service::start_with(&database, &payments, &every).await;
    one.create("POISON").await;
    for number in 0..40 {
        one.create(&format!("OD-{number:02}")).await;
    }
    let outside = async {
        for _ in 0..6 {
            let output = reconcile(&database, &payments, &["--json"], &query).await;
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    };
    let settled = async {
        for number in 0..40 {
            let id = format!("OD-{number:02}");
            let paid = number % 10 < 5;
            has_status(&two, &id, if paid { "PAID" } else { "CANCELLED" }).await;
        }
    };
    tokio::join!(outside, settled);
    assert_eq!(status(&one, "POISON").await, "NOT_PAID");
    let asked = mock.asked();
    assert!(asked.violation().is_none(), "{asked:?}");
    one.terminate().await;
    two.terminate().await;
    // One step each: the audit counts them.
    assert_eq!(audit(&database), (Some(0), "0 finding(s)\n".to_owned()));
}

/// Nothing depends on the zone of a process, nor on the day its clocks are changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_zone_makes_an_order_older() {
    let payments = Payments::new().await;
    for zone in [
        "Australia/Brisbane",
        "Pacific/Kiritimati",
        "America/St_Johns",
    ] {
        let database = Database::sqlite();
        let (mock, url) = Mock::over_http(Script::all(Answer::unpaid_for_good()))
            .await
            .unwrap();
        let here = [("TZ", zone), ("ORDERD_PAYMENT_QUERY", url.as_str())];
        let hour = [
            ("ORDERD_PAY_WITHIN", "60m"),
            ("ORDERD_RECONCILE_EVERY", "off"),
        ];
        let settings: Vec<_> = SOON.into_iter().chain(here).chain(hour).collect();
        let service = Service::start_with(&database, &payments, &settings).await;
        service.create("YOUNG").await;
        // Due for a question, and an hour from being cancelled.
        eventually("it was asked about", async || {
            let output = reconcile(&database, &payments, &["--json"], &here).await;
            assert_eq!(run_of(&output)["cancelled"], 0, "{zone}");
            (run_of(&output)["pending"] == 1).then_some(())
        })
        .await;
        assert_eq!(mock.asked().of("YOUNG"), 1, "{zone}");
        assert_eq!(status(&service, "YOUNG").await, "NOT_PAID", "{zone}");
        // Either side of a change of clocks, told with their offsets: an hour apart on the wall, no
        // time apart in fact.
        for (id, at) in [
            ("BEFORE", "2026-03-29T01:59:59+01:00"),
            ("AFTER", "2026-03-29T03:00:00+02:00"),
        ] {
            let body = json!({"order_id": id, "amount": 1, "currency": "EUR", "pay_by": at});
            service.post("/v1/orders", &body).await;
        }
        let (_, before) = service.get("/v1/orders/BEFORE").await.unwrap();
        let (_, after) = service.get("/v1/orders/AFTER").await.unwrap();
        assert_eq!(before["pay_by"], "2026-03-29T00:59:59.000000Z");
        assert_eq!(after["pay_by"], "2026-03-29T01:00:00.000000Z");
        service.terminate().await;
    }
}

/// A run dies at every step; the next one marks it failed and ends its work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_dies_is_finished_by_the_next_one() {
    let points = [
        "starting-a-run:before-commit",
        "starting-a-run:after-commit",
        "pacing:after-commit",
        "recording:before-commit",
        "recording:after-commit",
        "reconciling:cancelled",
        "reconciling:before-commit",
        "reconciling:after-commit",
        "ending-a-run:before-commit",
        "ending-a-run:after-commit",
    ];
    let cases = points
        .iter()
        .flat_map(|point| [(*point, true), (*point, false)]);
    let cases = cases.map(|(point, postgres)| async move {
        let database = if postgres {
            Database::postgres().await
        } else {
            Database::sqlite()
        };
        let payments = Payments::new().await;
        let mut script = Script::all(Answer::unpaid_for_good());
        script.set("LOST", paid("tx-lost"));
        let (_mock, url) = Mock::over_http(script).await.unwrap();
        let query = [("ORDERD_PAYMENT_QUERY", url.as_str())];
        let off: Vec<_> = SOON
            .into_iter()
            .chain([("ORDERD_RECONCILE_EVERY", "off")])
            .collect();
        let service = Service::start_with(&database, &payments, &off).await;
        service.create("LOST").await;
        service.create("GONE").await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let crash = [query[0], ("CRASH_POINT", point)];
        let died = reconcile(&database, &payments, &["--json"], &crash).await;
        assert_eq!(
            died.status.code(),
            None,
            "{point}: never came to it: {died:?}"
        );
        let started = Instant::now();
        while status(&service, "LOST").await != "PAID"
            || status(&service, "GONE").await != "CANCELLED"
        {
            // First the lease of the dead has to run out.
            assert!(
                started.elapsed() < 3 * PATIENCE,
                "{point}: its work is never ended"
            );
            tokio::time::sleep(Duration::from_secs(3)).await;
            reconcile(&database, &payments, &["--json"], &query).await;
        }
        service.terminate().await;
        assert_eq!(
            audit(&database),
            (Some(0), "0 finding(s)\n".to_owned()),
            "{point}"
        );
    });
    futures_util::future::join_all(cases).await;
}

/// 429 with a time holds back instances and one-shots alike.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_instance_asks_before_the_time_that_the_payment_service_named() {
    let (database, payments) = (Database::postgres().await, Payments::new().await);
    let mut script = Script::all(paid("tx-lost"));
    script.next(Fault::TooMany(RetryAfter::Seconds(3)));
    let (mock, url) = Mock::over_http(script).await.unwrap();
    let query = [
        ("ORDERD_PAYMENT_QUERY", url.as_str()),
        ("ORDERD_RECONCILE_EVERY", "1s"),
    ];
    let every: Vec<_> = SOON.into_iter().chain(query).collect();
    let one = Service::start_with(&database, &payments, &every).await;
    let two = Service::start_with(&database, &payments, &every).await;
    one.create("LOST").await;
    has_status(&two, "LOST", "PAID").await;
    let asked = mock.asked();
    assert!(asked.too_early.is_empty(), "{asked:?}");
    assert!(asked.questions >= 2, "{asked:?}");
    one.terminate().await;
    two.terminate().await;
}
