//! Rows that can't be read hold up nothing but themselves, and are reported everywhere.

use order_payment_mock::{Answer, Mock, Payment, Script};
use serde_json::Value;

use crate::support::{Database, Payments, Service, audit, event, eventually};

/// Two of everything that lists show, with ids that end in 1 and 2.
async fn fill(service: &Service, payments: &Payments) {
    for n in 1..=2 {
        service.create(&format!("O{n}")).await;
        for transaction in ["tx", "again"] {
            let body = event(
                "succeeded",
                &format!("{transaction}{n}"),
                &format!("O{n}"),
                1000,
            );
            payments.publish(body).await;
            // The other one must come second, whichever worker has it.
            service.paid(&format!("O{n}")).await;
        }
        payments
            .publish(format!("{{\"not\": \"understood {n}\"}}"))
            .await;
        let run = serde_json::json!({});
        eventually("a run begins", async || {
            (service.post("/v1/reconciliations", &run).await.0 == 202).then_some(())
        })
        .await;
    }
    payments.drained().await;
}

/// Reads a list page by page; returns the items and the number of unreadable rows.
async fn walk(service: &Service, list: &str) -> (Vec<Value>, u64) {
    let (mut items, mut unreadable, mut cursor) = (Vec::new(), 0, String::new());
    let separator = if list.contains('?') { '&' } else { '?' };
    loop {
        let path = format!("{list}{separator}limit=1{cursor}");
        let (status, page) = service.get(&path).await.unwrap();
        assert_eq!(status, 200, "{path}: {page}");
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        unreadable += page
            .get("unreadable")
            .map_or(0, |count| count.as_u64().unwrap());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, unreadable),
        }
    }
}

/// Each list with a damage to one row of it, and the request about that very row.
const DAMAGES: [(&str, &str, Option<&str>); 7] = [
    (
        "/v1/orders",
        "UPDATE orders SET currency = 'eur' WHERE order_id = 'O2'",
        Some("/v1/orders/O2"),
    ),
    (
        "/v1/orders/O1/history",
        "UPDATE transitions SET to_status = 'REFUNDED' WHERE order_id = 'O1' AND version = 2",
        None,
    ),
    (
        "/v1/orders/O1/payments",
        "UPDATE payments SET source = 'fax' WHERE transaction_id = 'again1'",
        None,
    ),
    (
        "/v1/payments",
        "UPDATE payments SET verdict = 'NEWER' WHERE transaction_id = 'again2'",
        None,
    ),
    (
        "/v1/payment-exceptions",
        "UPDATE payment_exceptions SET verdict = 'NEWER' WHERE transaction_id = 'again2'",
        Some("/v1/payment-exceptions/"),
    ),
    (
        "/v1/dead-letters",
        "UPDATE dead_letters SET state = 'lost' WHERE sequence = (SELECT max(sequence) FROM dead_letters)",
        Some("/v1/dead-letters/"),
    ),
    (
        "/v1/reconciliations",
        "UPDATE runs SET state = 'lost', finished_at = started_at
          WHERE started_at = (SELECT max(started_at) FROM runs)",
        Some("/v1/reconciliations/"),
    ),
];

/// The opposite of the damages.
const MENDS: [&str; 7] = [
    "UPDATE orders SET currency = 'EUR' WHERE currency = 'eur'",
    "UPDATE transitions SET to_status = 'PAID' WHERE to_status = 'REFUNDED'",
    "UPDATE payments SET source = 'event' WHERE source = 'fax'",
    "UPDATE payments SET verdict = 'SECOND_PAYMENT' WHERE verdict = 'NEWER'",
    "UPDATE payment_exceptions SET verdict = 'SECOND_PAYMENT' WHERE verdict = 'NEWER'",
    "UPDATE dead_letters SET state = 'open' WHERE state = 'lost'",
    "UPDATE runs SET state = 'done' WHERE state = 'lost'",
];

async fn every_list_goes_on(database: Database) {
    let payments = Payments::new().await;
    let mut service = Service::start(&database, &payments).await;
    fill(&service, &payments).await;
    let mut met = 0;
    for (list, damage, about) in DAMAGES {
        let (whole, already) = walk(&service, list).await;
        database.damage(damage).await;
        let (left, unreadable) = walk(&service, list).await;
        assert_eq!(unreadable, already + 1, "{list}");
        assert_eq!(left.len() + 1, whole.len(), "{list}");
        let gone = whole.iter().find(|item| !left.contains(item)).unwrap();
        if let Some(about) = about {
            let id = gone.get("id").map_or("", |id| id.as_str().unwrap());
            let (status, problem) = service.get(&format!("{about}{id}")).await.unwrap();
            assert_eq!(status, 503, "{about}: {problem}");
            assert_eq!(problem["type"], "/problems/unavailable");
            assert!(
                problem["detail"]
                    .as_str()
                    .unwrap()
                    .contains("can't be read"),
                "{problem}"
            );
        }
        met += 1;
        counted(&service, met).await;
    }
    eventually("readiness says it", async || {
        let (status, body) = service.get("/readyz").await?;
        let says = |reason: &Value| reason["reason"] == "unreadable-rows";
        (status == 503 && body["reasons"].as_array()?.iter().any(says)).then_some(())
    })
    .await;
    // An order that can't be read is there all the same: 404 would be a lie.
    assert_eq!(service.get("/v1/orders/O2/history").await.unwrap().0, 200);
    assert_eq!(service.get("/v1/orders/O2/payments").await.unwrap().0, 200);
    // What was mended is forgotten without anybody reading it.
    for (mended, mend) in (1..).zip(MENDS) {
        database.damage(mend).await;
        counted(&service, met - mended).await;
    }
    service.ready().await;
}

/// Waits until so many rows are counted as unreadable.
async fn counted(service: &Service, rows: u64) {
    let what = format!("{rows} rows are counted");
    eventually(&what, async || {
        (service.counter("orderd_unreadable_rows", "").await == rows).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_list_goes_on_past_rows_that_cannot_be_read_on_postgres() {
    every_list_goes_on(Database::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_list_goes_on_past_rows_that_cannot_be_read_on_sqlite() {
    every_list_goes_on(Database::sqlite()).await;
}

/// One phase of a run fails, and an order is damaged: everything else of the run is done all the same.
async fn a_run_goes_on(database: Database) {
    let payments = Payments::new().await;
    let mut script = Script::all(Answer::unpaid_for_good());
    script.set(
        "LOST",
        Answer::paid(Payment::new("acme", "tx-lost", 1000, "EUR")),
    );
    script.set(
        "BAD",
        Answer::paid(Payment::new("acme", "tx-bad", 1000, "EUR")),
    );
    let (_mock, url) = Mock::over_http(script).await.unwrap();
    let settings = [
        ("ORDERD_CHECK_AFTER", "1s"),
        ("ORDERD_PAY_WITHIN", "1s"),
        ("ORDERD_LAST_CHECK_AFTER", "off"),
        ("ORDERD_WAIT_FOR_ORDER", "1s"),
        ("ORDERD_PAYMENT_QUERY", url.as_str()),
        ("ORDERD_RECONCILE_EVERY", "1s"),
    ];
    let service = Service::start_with(&database, &payments, &settings).await;
    for id in ["LOST", "BAD", "GONE"] {
        service.create(id).await;
    }
    database
        .damage("UPDATE orders SET currency = 'eur' WHERE order_id = 'BAD'")
        .await;
    database.alter(refuse_exceptions(&database)).await;
    // It has waited too long at once, and no exception can be opened.
    payments
        .publish(event("succeeded", "tx-early", "NEVER", 1000))
        .await;
    service.paid("LOST").await;
    eventually("GONE is cancelled", async || {
        (service.status("GONE").await?.0 == "CANCELLED").then_some(())
    })
    .await;
    let failed = r#"phase="age""#;
    eventually("the run says that a phase failed", async || {
        let failures = service
            .counter("orderd_reconciliation_phase_failures_total", failed)
            .await;
        (failures > 0).then_some(())
    })
    .await;
    for phase in ["settle", "ask", "forget"] {
        let label = format!("phase=\"{phase}\"");
        let failures = service
            .counter("orderd_reconciliation_phase_failures_total", &label)
            .await;
        assert_eq!(failures, 0, "{phase}");
    }
    // The damaged order is reported like one that nothing is known about.
    eventually("a run names the damaged order", async || {
        let (_, runs) = service.get("/v1/reconciliations").await?;
        let mut runs = runs["items"].as_array()?.iter();
        runs.find(|run| {
            let named =
                |finding: &Value| finding["order_id"] == "BAD" && finding["kind"] == "inconsistent";
            run["state"] == "failed" && run["findings"].as_array().unwrap().iter().any(named)
        })
        .map(drop)
    })
    .await;
    let (code, findings) = audit(&database);
    assert_eq!(code, Some(3));
    assert!(
        findings.contains("A6 BAD: orders.currency can't be read"),
        "{findings}"
    );
}

/// What keeps exceptions from being opened.
fn refuse_exceptions(database: &Database) -> &'static str {
    if database.url.starts_with("sqlite") {
        "CREATE TRIGGER refused BEFORE INSERT ON payment_exceptions BEGIN SELECT RAISE(ABORT, 'refused'); END"
    } else {
        "ALTER TABLE payment_exceptions ADD CONSTRAINT refused CHECK (id = '') NOT VALID"
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_past_a_phase_that_fails_on_postgres() {
    a_run_goes_on(Database::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_on_past_a_phase_that_fails_on_sqlite() {
    a_run_goes_on(Database::sqlite()).await;
}

/// Retention needs no reconciliation.
async fn old_rows_go(database: Database) {
    let payments = Payments::new().await;
    let service = Service::start(&database, &payments).await;
    service.create("O1").await;
    // A refusal.
    assert_eq!(
        service
            .post("/v1/orders/O1/complete", &serde_json::json!({}))
            .await
            .0,
        409
    );
    service.terminate().await;
    let long_ago = if database.url.starts_with("sqlite") {
        "UPDATE refusals SET at = 1000000"
    } else {
        "UPDATE refusals SET at = '2000-01-01 00:00:00Z'"
    };
    database.damage(long_ago).await;
    let off = [("ORDERD_RECONCILE_EVERY", "off")];
    let service = Service::start_with(&database, &payments, &off).await;
    eventually("the old refusal is forgotten", async || {
        let (_, history) = service.get("/v1/orders/O1/history").await?;
        (history["items"].as_array()?.len() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_rows_are_forgotten_without_reconciliation_on_postgres() {
    old_rows_go(Database::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_rows_are_forgotten_without_reconciliation_on_sqlite() {
    old_rows_go(Database::sqlite()).await;
}
