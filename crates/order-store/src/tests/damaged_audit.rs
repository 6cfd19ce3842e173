//! The audit names every row that readers can't read, and goes on past it.

use std::time::Duration;

use super::*;
use crate::{FindingKind, Invariant, NewDeadLetter, RunCounts, RunFinding, RunState, StartedBy};

/// A row of every table that is read.
async fn fill(db: &TestDb) {
    for id in ["O1", "O2"] {
        db.store
            .create_order(new_order(id, 1000, "EUR"))
            .await
            .unwrap();
    }
    record(
        &db.store,
        &["succeeded tx1 O1 1000 EUR", "succeeded tx2 O1 1000 EUR"],
    )
    .await;
    let letter = NewDeadLetter {
        stream: "PAYMENTS".to_owned(),
        subject: "payments.events.acme".to_owned(),
        sequence: 1,
        headers: "{}".to_owned(),
        body: vec![0, 0xff],
        reason: "invalid-json",
        detail: String::new(),
    };
    let batch = crate::Batch {
        facts: Vec::new(),
        dead_letters: vec![letter],
    };
    db.store.record_payments(batch).await.unwrap();
    let ttl = Duration::from_secs(30);
    db.store
        .start_run("r1".to_owned(), StartedBy::Cli, false, ttl)
        .await
        .unwrap();
    let finding = RunFinding {
        order_id: "O1".parse().unwrap(),
        kind: FindingKind::Healed,
        detail: "found".to_owned(),
    };
    let ended = db.store.end_run(
        "r1".to_owned(),
        RunState::Done,
        RunCounts::default(),
        vec![finding],
    );
    assert!(ended.await.unwrap());
    set_aside(&db.store).await;
    // One that is at work, for its lease.
    db.store
        .start_run("r2".to_owned(), StartedBy::Cli, false, ttl)
        .await
        .unwrap();
    db.store
        .reserve_question(Duration::ZERO, Duration::ZERO)
        .await
        .unwrap();
}

/// Sets the first event of the outbox aside, as if its subject were closed.
async fn set_aside(store: &Store) {
    let lease = crate::Lease {
        name: "outbox",
        holder: "relay".to_owned(),
        ttl: Duration::from_secs(30),
    };
    assert!(store.take_lease(&lease).await.unwrap());
    let page = store
        .outbox_page(crate::OutboxPlace::default())
        .await
        .unwrap();
    let fate = |number: usize| match number {
        0 => crate::Fate::SetAside {
            kind: crate::AsideKind::Blocked,
            event: "created",
            why: "denied".to_owned(),
            tried: true,
        },
        _ => crate::Fate::Kept,
    };
    let fates = (0..page.events.len()).map(fate).collect();
    let events = std::sync::Arc::new(page.events);
    store
        .conclude_outbox(&lease, events, fates, None)
        .await
        .unwrap();
}

/// Damages of a row; the column is the one that is reported.
const DAMAGES: &[(&str, &str)] = &[
    ("orders", "currency = 'eur'"),
    ("orders", "status = 'LOST'"),
    ("orders", "amount = 0"),
    ("orders", "paid_provider = 'A C M E'"),
    ("payments", "kind = '?'"),
    ("payments", "event_id = ''"),
    ("payments", "order_id = '-'"),
    ("payments", "amount = -1"),
    ("payments", "currency = 'XXXX'"),
    ("payments", "verdict = 'NOT_LIVE'"),
    ("payments", "source = 'fax'"),
    ("transitions", "from_status = 'LOST'"),
    ("transitions", "event = 'lost'"),
    ("transitions", "source = 'fax'"),
    ("transitions", "transaction_id = '-'"),
    ("refusals", "event = 'lost'"),
    ("refusals", "provider = 'A'"),
    ("payment_exceptions", "verdict = 'APPLIED'"),
    ("payment_exceptions", "state = 'lost'"),
    ("payment_exceptions", "expected_amount = 0"),
    ("payment_exceptions", "expected_currency = 'x'"),
    ("dead_letters", "state = 'lost'"),
    ("transitions", "to_status = NULL"),
    ("transitions", "event = NULL"),
    ("dead_letters", "body = NULL"),
    ("outbox_set_aside", "line = 'garbage'"),
    ("outbox_set_aside", "line = NULL"),
    ("checks", "order_id = '-'"),
    ("runs", "started_by = 'lost'"),
    ("runs", "healed = -1"),
    ("run_findings", "kind = 'lost'"),
    ("run_findings", "order_id = '-'"),
];

on_both! {
    async fn every_damaged_column_is_reported(db) {
        fill(db).await;
        db.assert_clean().await;
        for table in ["orders", "payments", "transitions", "refusals", "payment_exceptions",
                      "dead_letters", "outbox_set_aside", "checks", "runs", "run_findings"] {
            db.loosen(table).await;
        }
        for (table, column) in [("transitions", "to_status"), ("transitions", "event"), ("dead_letters", "body"),
                                ("outbox_set_aside", "line")] {
            db.allow_null(table, column).await;
        }
        for (table, damage) in DAMAGES {
            let column = damage.split(' ').next().unwrap();
            let place = format!("{table}.{column} can't be read");
            let seen = db.rehearse(table, damage).await;
            let reported: Vec<&String> = seen.iter().filter(|finding| finding.contains(&place)).collect();
            assert!(!reported.is_empty(), "{table} {damage}: {seen:#?}");
        }
        db.assert_clean().await;
    }
}

#[tokio::test]
async fn times_that_only_postgres_knows_are_reported() {
    let db = TestDb::postgres().await;
    fill(&db).await;
    for (table, columns) in [
        ("orders", &["pay_by", "created_at", "updated_at"][..]),
        ("payments", &["occurred_at", "received_at"]),
        ("transitions", &["at"]),
        ("refusals", &["at"]),
        (
            "payment_exceptions",
            &["occurred_at", "opened_at", "pay_by"],
        ),
        ("dead_letters", &["received_at"]),
        ("checks", &["next_check_at", "ask_at"]),
        ("runs", &["started_at", "finished_at"]),
        ("outbox", &["at"]),
        ("outbox_set_aside", &["at"]),
        ("leases", &["expires_at"]),
        ("pacing", &["next_at", "not_before"]),
    ] {
        db.loosen(table).await;
        for column in columns {
            for time in ["infinity", "-infinity", "20000-01-01 00:00:00Z"] {
                let seen = db.rehearse(table, &format!("{column} = '{time}'")).await;
                let place = format!("{table}.{column} can't be read");
                assert!(
                    seen.iter().any(|finding| finding.contains(&place)),
                    "{table}.{column} {time}: {seen:#?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn bytes_that_are_not_text_are_reported_in_sqlite() {
    let db = TestDb::sqlite().await;
    fill(&db).await;
    for (table, column) in [
        ("orders", "order_id"),
        ("orders", "currency"),
        ("payments", "provider"),
        ("payments", "verdict"),
        ("transitions", "actor"),
        ("transitions", "event"),
        ("refusals", "reason"),
        ("payment_exceptions", "id"),
        ("payment_exceptions", "currency"),
        ("dead_letters", "headers"),
        ("checks", "order_id"),
        ("runs", "id"),
        ("run_findings", "detail"),
        ("outbox", "content"),
    ] {
        db.loosen(table).await;
        for value in ["CAST(x'41ff' AS TEXT)", "x'ff'"] {
            let seen = db.rehearse(table, &format!("{column} = {value}")).await;
            let place = format!("{table}.{column} can't be read");
            assert!(
                seen.iter().any(|finding| finding.contains(&place)),
                "{table}.{column} {value}: {seen:#?}"
            );
        }
    }
}

impl TestDb {
    /// What the audit reports if all rows of a table are damaged, or one where all can't be. All of
    /// it is undone.
    async fn rehearse(&self, table: &str, damage: &str) -> Vec<String> {
        let all = format!("UPDATE {table} SET {damage}");
        let key = match table {
            "orders" | "checks" => "order_id = 'O1'",
            "payments" | "payment_exceptions" => "transaction_id = 'tx2'",
            "runs" => "id = 'r2'",
            _ => "true",
        };
        let statement = format!("{all} WHERE {key}");
        let damage_and_audit = async |tx: &mut Tx, (statement,): &(String,)| {
            let statement = sqlx::AssertSqlSafe(statement.clone());
            match tx.conn() {
                Conn::Postgres(c) => sqlx::query(statement).execute(&mut **c).await.map(drop),
                Conn::Sqlite(c) => sqlx::query(statement).execute(&mut **c).await.map(drop),
            }
            .map_err(doing("damaging"))?;
            crate::audit::audit(tx, &()).await
        };
        let found = self
            .store
            .write_unless(true, "testing", (statement,), damage_and_audit);
        let found = found
            .await
            .unwrap_or_else(|error| panic!("{table} {damage}: {error:?}"));
        assert!(
            found
                .iter()
                .any(|finding| finding.invariant == Invariant::A6),
            "{table} {damage}"
        );
        found.iter().map(ToString::to_string).collect()
    }
}
