//! Migrations and what they must agree on.

use order_fsm::{OrderStatus, Verdict};

use super::*;
use crate::Error;

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
async fn an_empty_database_is_told_apart_from_a_migrated_one() {
    let store = Store::open(&empty_postgres().await, StoreOptions::default());
    assert!(matches!(
        store.check_schema().await,
        Err(Error::SchemaTooOld { missing: 1.. })
    ));
    assert!(store.migrate().await.unwrap() > 0);
    store.check_schema().await.unwrap();
}

#[test]
fn both_folders_hold_the_same_migrations() {
    let names = |folder: &str| {
        let folder = format!("{}/../../migrations/{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("postgres"), names("sqlite"));
}

#[test]
fn the_checks_of_the_schema_list_what_the_state_machine_lists() {
    let quoted = |names: Vec<&str>| {
        names
            .iter()
            .map(|name| format!("'{name}'"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let statuses = quoted(OrderStatus::ALL.map(OrderStatus::as_str).to_vec());
    let verdicts = quoted(
        Verdict::ALL
            .into_iter()
            .filter(|v| v.is_recorded())
            .map(Verdict::as_str)
            .collect(),
    );
    for folder in ["postgres", "sqlite"] {
        let path = format!(
            "{}/../../migrations/{folder}/20261129000001_initial.sql",
            env!("CARGO_MANIFEST_DIR")
        );
        let schema = std::fs::read_to_string(path).unwrap();
        let schema = schema.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            schema.contains(&format!("status IN ({statuses})")),
            "{folder}"
        );
        assert!(
            schema.contains(&format!("verdict IN ( {verdicts})")),
            "{folder}"
        );
    }
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
        ("sqlite://a.db?cache=shared", None),
        ("", None),
    ] {
        let parsed = url.parse::<DatabaseUrl>().ok().map(|url| url.to_string());
        assert_eq!(parsed.as_deref(), shown, "{url:?}");
    }
}

#[tokio::test]
async fn a_sqlite_file_is_served_by_one_process() {
    let db = TestDb::sqlite().await;
    let held = db.url.lock_for_serving().unwrap();
    assert!(held.is_some());
    assert!(matches!(
        db.url.lock_for_serving(),
        Err(Error::FileInUse { .. })
    ));
    let path = db.url.sqlite_path().unwrap();
    let other_name = path.with_extension("link");
    std::os::unix::fs::symlink(path, &other_name).unwrap();
    let other: DatabaseUrl = format!("sqlite://{}", other_name.display())
        .parse()
        .unwrap();
    assert!(matches!(
        other.lock_for_serving(),
        Err(Error::FileInUse { .. })
    ));
    drop(held);
    assert!(db.url.lock_for_serving().unwrap().is_some());
}
