//! Migrations and what they must agree on.

use order_fsm::{OrderEvent, OrderStatus, PaymentKind, Verdict};

use super::*;
use crate::store::Backend;
use crate::{Error, Resolution, sql};

on_both! {
    async fn migrating_again_changes_nothing(db) {
        db.store.check_schema().await.unwrap();
        assert_eq!(db.store.migrate().await.unwrap(), 0);
    }

    async fn a_newer_schema_is_served_by_an_older_binary(db) {
        db.tamper("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                   SELECT 99990101000000, 'later', success, checksum, 0 FROM _sqlx_migrations LIMIT 1").await;
        db.store.check_schema().await.unwrap();
        assert_eq!(db.store.migrate().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn an_empty_database_is_distinguished_from_a_migrated_one() {
    let store = Store::open(&empty_postgres().await, StoreOptions::default());
    assert!(matches!(
        store.check_schema().await,
        Err(Error::SchemaTooOld { missing: 1.. })
    ));
    assert!(store.migrate().await.unwrap() > 0);
    store.check_schema().await.unwrap();
}

#[test]
fn both_folders_hold_the_embedded_migrations() {
    let names = |folder: &str| {
        let folder = format!("{}/../../migrations/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("postgres"), crate::migrate::file_names());
    assert_eq!(names("sqlite"), crate::migrate::file_names());
}

/// The tables as they are after all migrations, each with its name in front: a migration may replace a check.
const DEFINITIONS: Sql = Sql {
    postgres: "
        SELECT conrelid::regclass::text || ' ' || pg_get_constraintdef(oid)
          FROM pg_constraint
         WHERE contype = 'c' AND connamespace = 'public'::regnamespace",
    sqlite: "SELECT name || ' ' || sql FROM sqlite_master WHERE type = 'table'",
};

/// The words that the check of a column allows, sorted; `None` if it has no such check.
fn listed<'a>(definitions: &'a [String], table: &str, column: &str) -> Option<Vec<&'a str>> {
    let lists = [
        format!("({column} IN ("),
        format!("({column} = ANY (ARRAY["),
    ];
    let of_table = definitions
        .iter()
        .filter(|definition| definition.split_whitespace().next() == Some(table));
    let list = of_table
        .flat_map(|definition| lists.iter().filter_map(|list| definition.split_once(list)))
        .map(|(_, list)| list.split([')', ']']).next().unwrap())
        .next()?;
    Some(sorted(list.split('\'').skip(1).step_by(2).collect()))
}

fn sorted(mut words: Vec<&str>) -> Vec<&str> {
    words.sort_unstable();
    words
}

fn verdicts(which: impl Fn(Verdict) -> bool) -> Vec<&'static str> {
    let verdicts = Verdict::ALL.into_iter().filter(|verdict| which(*verdict));
    sorted(verdicts.map(Verdict::as_str).collect())
}

on_both! {
    async fn the_checks_of_the_schema_list_what_the_code_lists(db) {
        let definitions = db.strings(DEFINITIONS).await;
        let statuses = OrderStatus::ALL.map(OrderStatus::as_str).to_vec();
        let sources = Source::ALL.map(Source::as_str).to_vec();
        let mut events = vec!["create"];
        events.extend(OrderEvent::ALL.map(OrderEvent::as_str));
        let mut resolutions = Resolution::ALL.map(Resolution::as_str).to_vec();
        resolutions.push("settled");
        let mut unchecked = Vec::new();
        for (table, column, words) in [
            ("orders", "status", statuses.clone()),
            ("payments", "verdict", verdicts(Verdict::is_recorded)),
            ("payments", "source", sources.clone()),
            ("payment_exceptions", "verdict", verdicts(Verdict::can_be_exception)),
            ("payment_exceptions", "resolution", resolutions),
            ("transitions", "event", events),
            ("transitions", "source", sources),
            ("transitions", "to_status", statuses),
        ] {
            match listed(&definitions, table, column) {
                Some(listed) => assert_eq!(listed, sorted(words), "{table}.{column}"),
                None => unchecked.push(format!("{table}.{column}")),
            }
        }
        // SQLite adds a check only by copying a table, so it has those of the first migration.
        let is_sqlite = matches!(db.store.backend(), Backend::Sqlite { .. });
        assert_eq!(unchecked.len(), if is_sqlite { 5 } else { 0 }, "{unchecked:?}");
    }
}

#[test]
fn the_audit_demands_an_exception_for_every_verdict_that_opens_one() {
    let (_, list) = sql::audit::A4.sqlite.split_once("verdict IN (").unwrap();
    let (list, _) = list.split_once(')').unwrap();
    let demanded: Vec<&str> = list.split('\'').skip(1).step_by(2).collect();
    let opening = verdicts(|verdict| {
        verdict.is_recorded() && verdict.opens_exception(&PaymentKind::Succeeded)
    });
    assert_eq!(sorted(demanded), opening);
}

/// Rows that the service writes pass, invalid ones don't, and rows that were damaged before stay.
#[tokio::test]
async fn new_damage_is_refused_by_postgres_and_old_damage_does_not_stop_a_migration() {
    let db = TestDb::postgres().await;
    for id in ["O1", "O2"] {
        db.store
            .create_order(new_order(id, 1000, "EUR"))
            .await
            .unwrap();
    }
    record(
        &db.store,
        &[
            "succeeded tx1 O1 1000 EUR",
            "succeeded tx2 O1 1000 EUR",
            "succeeded tx3 O2 999 EUR",
        ],
    )
    .await;
    for damage in [
        "UPDATE orders SET currency = 'eur'",
        "UPDATE orders SET order_id = ''",
        "UPDATE orders SET created_at = 'infinity'",
        "UPDATE payments SET kind = ''",
        "UPDATE payments SET occurred_at = '-infinity'",
        "UPDATE transitions SET event = 'lost'",
        "UPDATE transitions SET to_status = 'LOST'",
        "UPDATE refusals SET source = 'fax'",
        "UPDATE payment_exceptions SET verdict = 'LOST'",
        "UPDATE payment_exceptions SET currency = 'eur'",
        "UPDATE payment_exceptions SET provider = 'ACME'",
        "UPDATE checks SET pause_ms = -1",
    ] {
        let error = db.run(damage).await.unwrap_err();
        assert!(error.is_data(), "{damage}: {error:?}");
    }
    // Damaged before there were checks: the migration is applied once more, over it.
    for table in [
        "orders",
        "payments",
        "transitions",
        "payment_exceptions",
        "refusals",
        "dead_letters",
        "checks",
        "runs",
        "run_findings",
    ] {
        db.loosen(table).await;
    }
    db.tamper("UPDATE orders SET currency = 'eur' WHERE order_id = 'O2'")
        .await;
    db.tamper("UPDATE transitions SET source = 'fax' WHERE order_id = 'O2'")
        .await;
    db.tamper("UPDATE payment_exceptions SET verdict = 'LOST' WHERE transaction_id = 'tx3'")
        .await;
    db.tamper("DELETE FROM _sqlx_migrations WHERE version = 20261130000001")
        .await;
    assert_eq!(db.store.migrate().await.unwrap(), 1);
    record(&db.store, &["succeeded tx4 O1 1000 EUR"]).await;
    let found = db.store.audit().await.unwrap();
    let damaged = found
        .iter()
        .filter(|finding| finding.invariant == crate::Invariant::A6);
    assert_eq!(damaged.count(), 3, "{found:#?}");
}

#[test]
fn only_databases_this_service_knows_are_accepted() {
    for (url, shown) in [
        ("sqlite://orderd.db", Some("sqlite://orderd.db")),
        (
            "sqlite:///var/lib/orderd.db",
            Some("sqlite:///var/lib/orderd.db"),
        ),
        (
            "sqlite:///var/lib/orderd.db?mode=rwc",
            Some("sqlite:///var/lib/orderd.db"),
        ),
        (
            "postgres://ann:secret@db:5433/shop",
            Some("postgres://ann@db:5433/shop"),
        ),
        (
            "postgresql://ann@db/shop",
            Some("postgres://ann@db:5432/shop"),
        ),
        ("mysql://ann@db/shop", None),
        ("sqlite://:memory:", None),
        ("sqlite://", None),
        ("sqlite://orderd.db ", None),
        ("sqlite:// orderd.db", None),
        ("sqlite://orderd.db ?mode=rwc", None),
        ("sqlite://orderd.db\n", None),
        ("sqlite://ord\u{7}erd.db", None),
        ("sqlite://a.db?cache=shared", None),
        ("", None),
    ] {
        let parsed = url.parse::<DatabaseUrl>().ok().map(|url| url.to_string());
        assert_eq!(parsed.as_deref(), shown, "{url:?}");
    }
}
