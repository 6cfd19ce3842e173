//! The pages for people: their commands work, their links lead somewhere, their lists are complete.

mod blocks;
mod links;
mod run;

use std::collections::BTreeSet;

use links::code;
use run::Stage;
use serde_json::Value;

use crate::support::eventually;
use crate::tidy::read;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readme_pays_a_first_order() {
    Stage::start(&[]).await.run("README.md").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_the_api_works() {
    Stage::start(&[]).await.run("docs/api.md").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_events_works() {
    let stage = Stage::start(&[]).await;
    stage.run("docs/events.md").await;
    let blocks = blocks::blocks(&read("docs/events.md"));
    let shown: Vec<&str> = blocks
        .iter()
        .filter(|block| block.info == "json")
        .map(|block| block.text.as_str())
        .collect();
    let [payment, order] = shown[..] else {
        panic!("{shown:?}")
    };
    order_app::payment_event::decode("acme", payment.as_bytes()).unwrap();
    let published = eventually("the order event is published", async || {
        let orders = stage.payments.context.get_stream("ORDERS").await.ok()?;
        let subject = "orders.events.paid";
        orders.get_last_raw_message_by_subject(subject).await.ok()
    })
    .await;
    let fields = |text: &[u8]| -> Vec<String> {
        let event: serde_json::Map<String, Value> = serde_json::from_slice(text).unwrap();
        event.keys().cloned().collect()
    };
    assert_eq!(fields(order.as_bytes()), fields(&published.payload));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_verdicts_works() {
    Stage::start(&[]).await.run("docs/verdicts.md").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_reconciliation_works() {
    let settings = [
        ("ORDERD_PAYMENT_QUERY", "nats:payments.query"),
        ("ORDERD_CHECK_AFTER", "1s"),
        ("ORDERD_RECONCILE_EVERY", "1s"),
    ];
    Stage::start(&settings)
        .await
        .run("docs/reconciliation.md")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_operations_works() {
    Stage::start(&[]).await.run("docs/operations.md").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_security_works() {
    // The page's first command appends to it.
    let settings = [("ORDERD_TOKENS_FILE", "$FOLDER/tokens")];
    Stage::start(&settings).await.run("docs/security.md").await;
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "{lines}");
}

/// A page lists every word of a kind, as code.
fn lists(page: &str, words: impl IntoIterator<Item = String>) {
    let text = read(page);
    let code = code(&text);
    let mut count = 0;
    for word in words {
        count += 1;
        assert!(code.contains(&word), "{page} lacks `{word}`");
    }
    assert!(count > 1, "{page}: nothing to list");
}

#[test]
fn the_page_about_verdicts_lists_all_of_them_and_all_reasons_of_dead_letters() {
    let verdicts = order_fsm::Verdict::ALL.map(|verdict| verdict.as_str().to_owned());
    lists("docs/verdicts.md", verdicts);
    let reasons = order_app::payment_event::Reason::ALL;
    lists(
        "docs/verdicts.md",
        reasons.map(|reason| reason.as_str().to_owned()),
    );
}

#[test]
fn the_page_about_the_api_lists_every_problem() {
    let document = read("openapi/orders-v1.json");
    let slugs: BTreeSet<String> = document
        .split("\"/problems/")
        .skip(1)
        .map(|rest| format!("/problems/{}", rest.split('"').next().unwrap()))
        .collect();
    assert!(slugs.len() > 15, "{slugs:?}");
    lists("docs/api.md", slugs);
}

#[test]
fn the_page_about_operations_lists_every_command_every_alert_and_every_cause() {
    let causes = order_app::health::Cause::ALL;
    lists(
        "docs/operations.md",
        causes.map(|cause| cause.as_str().to_owned()),
    );
    let page = read("docs/operations.md");
    for command in order_app::cli::command().get_subcommands() {
        let row = format!("| `orderd {}", command.get_name());
        assert!(page.contains(&row), "docs/operations.md lacks {row}");
    }
    let rules = read("deploy/prometheus/orderd.rules.yml");
    let alerts = rules.split("- alert: ").skip(1);
    lists(
        "docs/operations.md",
        alerts.map(|rest| rest.lines().next().unwrap().to_owned()),
    );
}

/// The table under a heading of ARCHITECTURE.md names the files that something passes; that they are there is tested as for all pages.
#[test]
fn a_payment_and_a_command_pass_few_files() {
    let page = read("ARCHITECTURE.md");
    for (heading, files_max) in [("A payment's journey", 14), ("A command's journey", 12)] {
        let (_, section) = page.split_once(&format!("## {heading}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let files: BTreeSet<String> = code(section)
            .into_iter()
            .filter(|code| code.starts_with("crates/"))
            .collect();
        assert!(
            (10..=files_max).contains(&files.len()),
            "{heading}: {files:?}"
        );
    }
}
