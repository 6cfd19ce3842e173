//! The SQLite file: served by one process, under one name.

use std::path::PathBuf;

use super::*;
use crate::FileMoved;

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

/// The log and the lock are named after the file: under another name there would be others.
#[tokio::test]
async fn a_file_with_another_name_is_refused() {
    let db = TestDb::sqlite().await;
    let path = db.url.sqlite_path().unwrap();
    let other_name = path.with_extension("other");
    std::fs::hard_link(path, &other_name).unwrap();
    let other: DatabaseUrl = format!("sqlite://{}", other_name.display())
        .parse()
        .unwrap();
    for url in [&db.url, &other] {
        for refused in [
            url.lock_for_serving().map(|_| ()),
            url.check_file(true),
            url.check_file(false),
        ] {
            let error = refused.unwrap_err();
            assert!(!error.is_transient());
            let said = error.to_string();
            let file = url.sqlite_path().unwrap().display().to_string();
            for words in [&file, "2 names (hard links)", "Remove the other names"] {
                assert!(said.contains(words), "{said}");
            }
        }
    }
    std::fs::remove_file(other_name).unwrap();
    assert!(db.url.lock_for_serving().unwrap().is_some());
}

#[tokio::test]
async fn a_file_is_created_only_on_request() {
    let db = TestDb::sqlite().await;
    let path = db.url.sqlite_path().unwrap().with_file_name("typo.db");
    let url: DatabaseUrl = format!("sqlite://{}", path.display()).parse().unwrap();
    let error = url.check_file(false).unwrap_err();
    assert!(matches!(error, Error::NoSuchFile { .. }), "{error:?}");
    assert!(error.to_string().contains("typo.db"), "{error}");
    assert!(!path.exists());
    url.check_file(true).unwrap();
    url.check_file(false).unwrap();
    assert_eq!(path.metadata().unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_recorded_once_the_lock_is_lost() {
    let db = TestDb::sqlite().await;
    let create = |id: &'static str| db.store.create_order(new_order(id, 1, "EUR"));
    let lock = db.url.lock_for_serving().unwrap().unwrap();
    db.store.rely_on(&lock);
    create("O1").await.unwrap();

    let path = PathBuf::from(format!(
        "{}.serve-lock",
        db.url.sqlite_path().unwrap().display()
    ));
    std::fs::remove_file(&path).unwrap();
    for what in ["deleted", "replaced"] {
        for error in [
            create("O2").await.unwrap_err(),
            db.store.beside(|_| {}).ping().await.unwrap_err(),
        ] {
            let lost = matches!(error, Error::FileMoved(FileMoved::LockLost { .. }));
            assert!(lost, "{what}: {error:?}");
        }
        // As another process would.
        drop(db.url.lock_for_serving().unwrap().unwrap());
    }
}

/// SQLite puts the log beside the file that a symbolic link leads to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_replaced_is_noticed_behind_a_symbolic_link() {
    let db = TestDb::sqlite().await;
    let path = db.url.sqlite_path().unwrap();
    let link = path.with_extension("link");
    std::os::unix::fs::symlink(path, &link).unwrap();
    let url: DatabaseUrl = format!("sqlite://{}", link.display()).parse().unwrap();
    let store = Store::open(&url, (*db.store.options).clone());
    store.create_order(new_order("O1", 1, "EUR")).await.unwrap();
    let log = format!("{}-wal", path.display());
    std::fs::copy(&log, format!("{log}.copy")).unwrap();
    std::fs::rename(format!("{log}.copy"), &log).unwrap();
    let error = store
        .create_order(new_order("O2", 1, "EUR"))
        .await
        .unwrap_err();
    let replaced = matches!(error, Error::FileMoved(FileMoved::Replaced { .. }));
    assert!(replaced, "{error:?}");
}
