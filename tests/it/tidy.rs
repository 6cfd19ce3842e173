//! The house rules that a machine can check.

use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// Every Rust file under a folder, with its text.
pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} holds no source");
    found
}

fn dependencies(krate: &str) -> Vec<String> {
    let manifest: toml::Table = read(format!("crates/{krate}/Cargo.toml")).parse().unwrap();
    manifest["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

#[test]
fn crates_depend_in_one_direction() {
    for (krate, allowed) in [
        ("order-fsm", &[][..]),
        ("order-store", &["order-fsm"]),
        ("order-app", &["order-fsm", "order-store"]),
        (
            "order-bench",
            &["order-fsm", "order-store", "order-testkit"],
        ),
        ("order-drill", &["order-payment-mock"]),
        ("order-payment-mock", &[]),
        ("order-testkit", &[]),
    ] {
        let ours = dependencies(krate)
            .into_iter()
            .filter(|name| name.starts_with("order-"));
        for name in ours {
            assert!(
                allowed.contains(&name.as_str()),
                "{krate} depends on {name}"
            );
        }
    }
    let pure = dependencies("order-fsm");
    assert_eq!(pure, ["iso_currency", "thiserror"], "order-fsm is pure");
}

#[test]
fn libraries_stay_in_their_rooms() {
    let check = |name: &str, rooms: &[&str]| {
        for folder in [
            "crates/order-app/src",
            "crates/order-store/src",
            "crates/order-fsm/src",
        ] {
            for (path, text) in sources(folder) {
                let path = path.to_str().unwrap();
                let used = text
                    .lines()
                    .any(|line| !line.trim_start().starts_with("//") && line.contains(name));
                let allowed = rooms.iter().any(|room| path.contains(room));
                assert!(!used || allowed, "{path} uses {name}");
            }
        }
    };
    check("sqlx::", &["order-store/"]);
    check("axum::", &["order-app/src/http/", "order-app/src/console/"]);
    check("askama::", &["order-app/src/console/"]);
    check("utoipa::", &["order-app/src/http/", "order-app/src/wire/"]);
    check(
        "async_nats::",
        &[
            "/nats/",
            "/ingest/",
            "/relay/",
            "/payment_service/",
            "/config/",
        ],
    );
    check("anyhow::", &["/main.rs", "/app/"]);
}

#[test]
fn entrances_do_not_know_one_another() {
    let entrances = ["ingest", "relay", "reconcile", "http", "console"];
    for entrance in entrances {
        for (path, text) in sources(&format!("crates/order-app/src/{entrance}")) {
            // Pages are served by the API's server, and move orders by its operations.
            let allowed = |other: &str| entrance == "console" && other == "http";
            let others = entrances.iter().filter(|other| **other != entrance);
            for other in others.filter(|other| !allowed(other)) {
                let imported = crate::circles::paths(&text)
                    .iter()
                    .any(|path| path[0] == "crate" && path[1] == **other);
                assert!(!imported, "{} uses {other}", path.display());
            }
        }
    }
}

#[test]
fn rooms_of_http_come_in_one_direction() {
    let rooms = ["answer", "request", "document", "server", "operations"];
    for (place, room) in rooms.iter().enumerate() {
        for (path, text) in sources(&format!("crates/order-app/src/http/{room}")) {
            for later in &rooms[place + 1..] {
                let imported = crate::circles::paths(&text)
                    .iter()
                    .any(|path| path.starts_with(&["crate", "http", later].map(ToOwned::to_owned)));
                assert!(!imported, "{} uses {later}", path.display());
            }
        }
    }
}

#[test]
fn every_dependency_says_why_it_is_there() {
    let manifest = read("Cargo.toml");
    let (_, table) = manifest.split_once("[workspace.dependencies]").unwrap();
    let (table, _) = table.split_once("\n[").unwrap();
    let mut explained = false;
    for line in table.lines() {
        if line.starts_with('#') {
            explained = true;
        } else if line.is_empty() {
            explained = false;
        } else {
            assert!(
                explained || line.starts_with("order-"),
                "no reason for {line}"
            );
        }
    }
}

#[test]
fn exceptions_from_lints_are_explained() {
    for folder in ["crates", "tests"] {
        for (path, text) in sources(folder) {
            let allow = concat!("#[", "allow(");
            assert!(
                !text.contains(allow),
                "{}: use expect with a reason",
                path.display()
            );
        }
    }
}

#[test]
fn no_file_outgrows_its_question() {
    const LINES_MAX: usize = 520;
    for folder in ["crates", "tests"] {
        for (path, text) in sources(folder) {
            let lines = text.lines().count();
            assert!(lines <= LINES_MAX, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn the_documents_show_the_state_machine_as_it_is() {
    assert!(read("ARCHITECTURE.md").contains(order_fsm::diagram().trim()));
}

#[test]
fn every_crash_point_is_gone_through() {
    let tests: String = sources("tests").into_iter().map(|(_, text)| text).collect();
    let mut points = 0;
    for folder in ["crates/order-app/src", "crates/order-store/src"] {
        for (path, text) in sources(folder) {
            for part in text.split("crash::point(\"").skip(1) {
                let (name, _) = part.split_once('"').unwrap();
                points += 1;
                assert!(
                    tests.contains(&format!("\"{name}\"")),
                    "{}: {name}",
                    path.display()
                );
            }
        }
    }
    assert!(points > 8, "{points}");
}
