//! `order-bench` with little work: its ledgers find nothing, each ratio is there, and what makes the service fast is in
//! effect. How fast it is on this machine is no test's business.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use order_testkit::clear_settings;
use serde_json::Value;

fn measure(database: &str) -> Value {
    let test = std::env::current_exe().unwrap();
    let binary = test.ancestors().nth(2).unwrap().join("order-bench");
    let mut command = Command::new(binary);
    // It starts servers of the kit, whose variables it needs.
    let kit: Vec<_> = std::env::vars_os()
        .filter(|(name, _)| name == "ORDERD_NATS_SERVER" || name == "ORDERD_PG_BIN")
        .collect();
    clear_settings(&mut command);
    let done = command
        .envs(kit)
        .args([
            "all",
            "--quick",
            "--json",
            "--payments",
            "400",
            "--database",
            database,
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stdout)
    );
    serde_json::from_slice(&done.stdout).unwrap()
}

fn section<'a>(report: &'a Value, name: &str) -> &'a Value {
    let sections = report["sections"].as_array().unwrap();
    sections
        .iter()
        .find(|section| section["name"] == name)
        .unwrap()
}

fn figure(section: &Value, name: &str) -> f64 {
    let figures = section["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no {name}: {section}"))["value"]
        .as_f64()
        .unwrap()
}

fn check(report: &Value, database: &str) {
    assert_eq!(report["refused"], serde_json::json!([]));
    let ratios: BTreeSet<&str> = report["ratios"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    for ratio in [
        "payments.relay off/articles",
        "payments.relay on/articles",
        "payments.relay off/statements",
        "payments.relay off/nats",
        "refusals.second payments/applied",
        "refusals.mismatches/applied",
        "replay.duplicates/nats",
        "relay.relay/publishing alone",
        "queries.GET 8/select 8",
        "queries.GET 32/select 32",
    ] {
        let ratio = format!("{database}.{ratio}");
        assert!(
            ratios.contains(ratio.as_str()),
            "{ratio} isn't among {ratios:?}"
        );
    }
    // A backlog is taken in batches, not one by one.
    let payments = section(report, &format!("{database}.payments"));
    assert!(figure(payments, "batch, relay off") >= 50.0, "{payments}");
}

#[test]
fn everything_is_measured_on_postgres() {
    let report = measure("postgres");
    check(&report, "postgres");
    // Paying an order writes no index, if its page has room.
    let payments = section(&report, "postgres.payments");
    assert!(
        figure(payments, "HOT updates of orders") >= 70.0,
        "{payments}"
    );
}

#[test]
fn everything_is_measured_on_sqlite() {
    check(&measure("sqlite"), "sqlite");
}
