//! The database was set back, and the stream remembers more than it.

use std::path::{Path, PathBuf};

use order_testkit::{Nats, unique_name};

use super::{Beside, ids, stored};
use crate::support::{Database, Payments, Service, eventually};

const UNEXPECTED: &str = "orderd_unexpected_duplicates_total";

/// A copy of a SQLite database that no process has open.
struct Copy(PathBuf);

impl Copy {
    fn of(database: &Database) -> Self {
        let folder = std::env::temp_dir().join(unique_name("orderd_copy"));
        std::fs::create_dir(&folder).unwrap();
        let copy = Self(folder);
        copy.files(database, |ours, theirs| (theirs, ours));
        copy
    }

    fn put_back(&self, database: &Database) {
        self.files(database, |ours, theirs| (ours, theirs));
    }

    fn files(
        &self,
        database: &Database,
        direction: impl Fn(PathBuf, PathBuf) -> (PathBuf, PathBuf),
    ) {
        let file = database.url.strip_prefix("sqlite://").unwrap();
        for suffix in ["", "-wal", "-shm"] {
            let theirs = PathBuf::from(format!("{file}{suffix}"));
            let ours = self.0.join(format!("copy{suffix}"));
            let (from, to) = direction(ours, theirs);
            copy_or_remove(&from, &to);
        }
    }
}

fn copy_or_remove(from: &Path, to: &Path) {
    if from.exists() {
        std::fs::copy(from, to).unwrap();
    } else if to.exists() {
        std::fs::remove_file(to).unwrap();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn tells_in_order(payments: &Payments, expected: &[&str]) {
    eventually("exactly these are stored", async || {
        (stored(payments).await == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_is_written_again_is_stored_again() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    service.create("O0").await;
    tells_in_order(&payments, &["O0/1"]).await;
    assert_eq!(service.terminate().await.0, Some(0));
    let copy = Copy::of(&database);

    let service = Service::start(&database, &payments).await;
    let beside = Beside::new(&database);
    beside.cancel("O0", "the first time").await;
    tells_in_order(&payments, &["O0/1", "O0/2"]).await;
    beside.0.close().await;
    assert_eq!(service.terminate().await.0, Some(0));

    copy.put_back(&database);
    let service = Service::start(&database, &payments).await;
    Beside::new(&database).cancel("O0", "the second time").await;
    tells_in_order(&payments, &["O0/1", "O0/2", "O0/2"]).await;
    let stream = payments.context.get_stream(super::STREAM).await.unwrap();
    let last = stream.get_last_raw_message_by_subject("orders.events.cancelled");
    let body = String::from_utf8(last.await.unwrap().payload.to_vec()).unwrap();
    assert!(body.contains("the second time"), "{body}");
    Beside::new(&database).drained().await;
    assert_eq!(service.counter(UNEXPECTED, "").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_deleted_by_hand_are_written_and_stored_again() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::postgres().await, Payments::on(server.url()).await);
    let service = Service::start(&database, &payments).await;
    let beside = Beside::new(&database);
    beside.create("O0").await;
    beside.cancel("O0", "the first time").await;
    tells_in_order(&payments, &["O0/1", "O0/2"]).await;
    beside.drained().await;
    let mut by_hand = database.connect().await;
    for statement in [
        "UPDATE orders SET status = 'NOT_PAID', version = 1",
        "DELETE FROM transitions WHERE version = 2",
    ] {
        sqlx::query(statement).execute(&mut by_hand).await.unwrap();
    }
    beside.cancel("O0", "the second time").await;
    tells_in_order(&payments, &["O0/1", "O0/2", "O0/2"]).await;
    assert_eq!(service.counter(UNEXPECTED, "").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_the_stream_has_and_this_database_never_published_is_reported() {
    let server = Nats::start().unwrap();
    let (database, payments) = (Database::sqlite(), Payments::on(server.url()).await);
    let beside = Beside::migrated(&database).await;
    for number in 0..3 {
        beside.create(&format!("O{number}")).await;
    }
    beside.0.close().await;
    let copy = Copy::of(&database);
    let service = Service::start(&database, &payments).await;
    tells_in_order(&payments, &["O0/1", "O1/1", "O2/1"]).await;
    eventually("they have left the outbox", async || {
        (Beside::new(&database).unpublished().await == 0).then_some(())
    })
    .await;
    assert_eq!(service.counter(UNEXPECTED, "").await, 0);
    assert_eq!(service.terminate().await.0, Some(0));

    copy.put_back(&database);
    let service = Service::start(&database, &payments).await;
    eventually("they are reported", async || {
        (service.counter(UNEXPECTED, "").await == 3).then_some(())
    })
    .await;
    assert!(service.log().contains("this database never published"));
    assert_eq!(stored(&payments).await, ids(0..3, 1), "stored once");
    Beside::new(&database).drained().await;
}
