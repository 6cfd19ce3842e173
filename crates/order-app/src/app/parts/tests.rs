use std::sync::{Arc, Mutex};

use tokio::time::{Instant, sleep};

use super::*;

/// Parts under test, and what they have to do with one another.
struct Service {
    parts: Parts,
    shutdown: CancellationToken,
    stop: CancellationToken,
    /// What the parts have done.
    done: Arc<Mutex<Vec<&'static str>>>,
}

impl Service {
    fn new() -> Self {
        let shutdown = CancellationToken::new();
        Self {
            parts: Parts::default(),
            stop: shutdown.child_token(),
            shutdown,
            done: Arc::default(),
        }
    }

    /// A part that takes its time to stop, and may fail in the end.
    fn part(mut self, name: &'static str, stopping: Duration, fails: bool) -> Self {
        let (stop, done) = (self.stop.clone(), self.done.clone());
        self.parts.add(name, async move {
            stop.cancelled().await;
            sleep(stopping).await;
            done.lock().unwrap().push(name);
            if fails {
                Err(anyhow!("of {name}"))
            } else {
                Ok(())
            }
        });
        self
    }

    fn fails(mut self, name: &'static str) -> Self {
        self.parts
            .add(name, async move { Err(anyhow!("of {name}")) });
        self
    }

    fn panics(mut self, name: &'static str) -> Self {
        self.parts.add(name, async move { panic!("of {name}") });
        self
    }

    /// How it ended, what was done by then, and how long that took.
    async fn run(self) -> (Result<(), String>, Vec<&'static str>, Duration) {
        let started = Instant::now();
        let health = Health::default();
        let ended = self.parts.run(&self.shutdown, &self.stop, &health).await;
        assert!(health.draining() && self.stop.is_cancelled());
        let done = self.done.lock().unwrap().clone();
        let ended = ended.map_err(|error| format!("{error:#}"));
        (ended, done, started.elapsed())
    }
}

const SOON: Duration = Duration::from_secs(1);
const NEVER: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_ends_the_service_and_lets_the_others_finish() {
    for service in [
        Service::new().fails("relay"),
        Service::new().panics("relay"),
    ] {
        let service = service
            .part("http", SOON, false)
            .part("ingest", 2 * SOON, false);
        let (ended, done, took) = service.run().await;
        let error = ended.unwrap_err();
        assert!(
            error.starts_with("relay failed: ") && error.ends_with("of relay"),
            "{error}"
        );
        assert_eq!(done, ["http", "ingest"]);
        assert_eq!(took.as_secs(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_end_does_not_hide_a_failure() {
    for service in [
        Service::new().fails("relay"),
        Service::new().panics("relay"),
    ] {
        let service = service
            .part("http", NEVER, false)
            .part("ingest", SOON, false);
        let (ended, done, took) = service.run().await;
        assert!(ended.unwrap_err().starts_with("relay failed"));
        assert_eq!(done, ["ingest"]);
        assert_eq!(took.as_secs(), STOP.as_secs());
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_part_learns_that_the_others_have_stopped() {
    let mut service = Service::new()
        .part("ingest", SOON, false)
        .part("relay", 2 * SOON, true);
    let (stop, others_stopped) = (service.stop.clone(), service.parts.others_stopped());
    let done = service.done.clone();
    service.parts.add(LAST, async move {
        stop.cancelled().await;
        others_stopped.cancelled().await;
        done.lock().unwrap().push(LAST);
        Ok(())
    });
    service.shutdown.cancel();
    let (_, done, took) = service.run().await;
    assert_eq!(done, ["ingest", "relay", LAST]);
    assert_eq!(took.as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_counts() {
    let service = Service::new()
        .part("http", 2 * SOON, true)
        .part("ingest", SOON, true);
    let (ended, done, _) = service.fails("relay").run().await;
    assert_eq!(ended.unwrap_err(), "relay failed: of relay");
    assert_eq!(done, ["ingest", "http"]);
    // Also of those that come while the service stops.
    let service = Service::new()
        .part("http", 2 * SOON, true)
        .part("ingest", SOON, true);
    service.shutdown.cancel();
    assert_eq!(
        service.run().await.0.unwrap_err(),
        "ingest failed: of ingest"
    );
    let service = Service::new()
        .part("http", NEVER, false)
        .part("ingest", SOON, true);
    service.shutdown.cancel();
    assert_eq!(
        service.run().await.0.unwrap_err(),
        "ingest failed: of ingest"
    );
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_asked_to_stop_has_not_failed() {
    let service = Service::new().part("http", SOON, false);
    service.shutdown.cancel();
    assert_eq!(service.run().await.0, Ok(()));
    // What isn't done in time is the next process's business.
    let service = Service::new().part("http", NEVER, false);
    service.shutdown.cancel();
    assert_eq!(service.run().await.0, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_part_that_ends_by_itself_has_failed() {
    let mut service = Service::new().part("http", SOON, false);
    service.parts.add("relay", async { Ok(()) });
    let (ended, done, _) = service.run().await;
    assert!(ended.unwrap_err().starts_with("relay failed: it ended"));
    assert_eq!(done, ["http"]);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_before_the_others_have_stopped() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false);
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    // With a single subscriber, whether a line is of interest is asked of the thread that meets it first, which may be
    // that of another test. With two, it is asked of both.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().finish());
    tracing::callsite::rebuild_interest_cache();
    let mut service = Service::new().panics("relay");
    let (stop, seen) = (service.stop.clone(), Arc::new(Mutex::new(String::new())));
    let (at_stop, written) = (seen.clone(), log.clone());
    service.parts.add("http", async move {
        stop.cancelled().await;
        *at_stop.lock().unwrap() = String::from_utf8(written.0.lock().unwrap().clone())?;
        Ok(())
    });
    service.run().await.0.unwrap_err();
    let seen = seen.lock().unwrap();
    assert!(
        seen.contains("ERROR") && seen.contains("it panicked: of relay"),
        "{seen}"
    );
}
