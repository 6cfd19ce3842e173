//! The file of a SQLite database: one name, one lock, and made only by the commands that may.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{Database, Payments, Service, configure, orderd};

fn path(database: &Database) -> PathBuf {
    Path::new(database.url.strip_prefix("sqlite://").unwrap()).to_owned()
}

/// Exit code and what was said.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// As in a container into which only the file is mounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_mounted_by_itself_is_refused() {
    let (host, container, payments) = (
        Database::sqlite(),
        Database::sqlite(),
        Payments::new().await,
    );
    let (host, inside) = (path(&host), path(&container));
    std::fs::write(&host, "").unwrap();
    std::fs::write(&inside, "").unwrap();
    let serve = orderd(&["serve"]);
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c"])
        .arg("mount --bind \"$0\" \"$1\" && shift && exec \"$@\"")
        .args([host.as_os_str(), inside.as_os_str()])
        .arg(serve.get_program())
        .arg("serve");
    order_testkit::clear_settings(&mut command);
    let (code, said) = run(configure(&mut command, &container, &payments));
    if said.contains("unshare") || said.contains("mount:") {
        // Only root may mount.
        return;
    }
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("orderd.db: it is mounted as a single file")
            && said.contains("Mount the directory"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_a_hard_link_is_refused_by_every_command() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let migrated = orderd(&["migrate"])
        .env("DATABASE_URL", &database.url)
        .output()
        .unwrap();
    assert_eq!(migrated.status.code(), Some(0));
    std::fs::hard_link(path(&database), path(&database).with_extension("2")).unwrap();
    let since = "2026-11-29T00:00:00Z";
    for arguments in [
        &["serve"][..],
        &["migrate"],
        &["audit"],
        &["reconcile"],
        &["republish", "--since", since],
        &["reconsume", "--since", since],
    ] {
        let (code, said) = run(configure(&mut orderd(arguments), &database, &payments));
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("hard links"), "{arguments:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_was_deleted_ends_the_service() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let mut service = Service::start(&database, &payments).await;
    std::fs::remove_file(format!("{}.serve-lock", path(&database).display())).unwrap();
    assert_eq!(service.ended().await, Some(1));
    assert!(service.log().contains("was deleted or replaced"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_serve_and_migrate_make_a_file() {
    let (database, payments) = (Database::sqlite(), Payments::new().await);
    let since = "2026-11-29T00:00:00Z";
    for arguments in [
        &["audit"][..],
        &["reconcile"],
        &["reconcile", "--dry-run"],
        &["republish", "--since", since],
        &["reconsume", "--since", since],
    ] {
        let (code, said) = run(configure(&mut orderd(arguments), &database, &payments));
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("no database file"), "{arguments:?}: {said}");
        let beside = std::fs::read_dir(path(&database).parent().unwrap());
        assert_eq!(beside.unwrap().count(), 0, "{arguments:?}");
    }
    let (code, said) = run(configure(&mut orderd(&["migrate"]), &database, &payments));
    assert_eq!(code, Some(0), "{said}");
}
