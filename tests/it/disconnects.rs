//! Commands cut at random moments: each happens once or not at all, and the pool stays whole.
//!
//! `ORDERD_TEST_CUTS` says how many are cut; by hand, 10,000.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use sqlx::Row as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Database, Payments, Service, audit, eventually};

/// Cut without being asked for more.
const CUTS: u64 = 240;

/// Callers at a time.
const CALLERS: usize = 16;

/// What is cut, by turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Create,
    CreateKeyed,
    Cancel,
    CancelKeyed,
}

impl Command {
    fn of(number: u64) -> Self {
        match number % 4 {
            0 => Self::Create,
            1 => Self::CreateKeyed,
            2 => Self::Cancel,
            _ => Self::CancelKeyed,
        }
    }

    fn cancels(self) -> bool {
        matches!(self, Self::Cancel | Self::CancelKeyed)
    }

    /// The steps the order has taken when this was done.
    fn steps(self) -> usize {
        if self.cancels() { 2 } else { 1 }
    }

    fn request(self, order_id: &str) -> String {
        let (path, body) = if self.cancels() {
            (format!("/v1/orders/{order_id}/cancel"), String::new())
        } else {
            let body = format!(r#"{{"order_id":"{order_id}","amount":1000,"currency":"EUR"}}"#);
            ("/v1/orders".to_owned(), body)
        };
        let key = match self {
            Self::Create | Self::Cancel => String::new(),
            Self::CreateKeyed | Self::CancelKeyed => format!("idempotency-key: {order_id}\r\n"),
        };
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// Numbers that look random and are the same in every run.
fn random(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Sends a request and reads its answer to the end.
async fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn is_done(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 20")
}

/// Sends all of a request or the beginning of it, and goes away within `longest`.
async fn cut(address: &str, request: &str, seed: u64, longest: Duration) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = u64::try_from(request.len()).unwrap();
    let sent = if random(seed).is_multiple_of(5) {
        usize::try_from(random(seed + 1) % length).unwrap()
    } else {
        request.len()
    };
    stream.write_all(&request.as_bytes()[..sent]).await.unwrap();
    let micros = u64::try_from(longest.as_micros()).unwrap();
    let moment = Duration::from_micros(random(seed + 2) % micros);
    let started = Instant::now();
    while started.elapsed() < moment {
        tokio::task::yield_now().await;
    }
    // A reset and an orderly end are two ways to go.
    if random(seed + 3).is_multiple_of(2) {
        stream.set_zero_linger().unwrap();
    }
}

/// How many steps an order has taken; none if it isn't there.
async fn steps(service: &Service, order_id: &str) -> usize {
    let (status, history) = service
        .get(&format!("/v1/orders/{order_id}/history"))
        .await
        .unwrap();
    if status == 404 {
        return 0;
    }
    history["items"].as_array().unwrap().len()
}

/// The service's own work may be between two statements, but for less than the 10 s after which PostgreSQL would end a
/// transaction that was left open.
async fn assert_no_transaction_stays_open(database: &Database) {
    let mut connection = database.connect().await;
    let started = Instant::now();
    loop {
        let open = sqlx::query(
            "SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
        );
        let open: i64 = open.fetch_one(&mut connection).await.unwrap().get(0);
        if open == 0 {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{open} transaction(s) stay open"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn run(database: &Database) {
    let cuts = std::env::var("ORDERD_TEST_CUTS").map_or(CUTS, |text| text.parse().unwrap());
    let payments = Payments::new().await;
    let service = Service::start(database, &payments).await;
    let address = service.http.strip_prefix("http://").unwrap().to_owned();

    let known = cuts.min(20);
    let started = Instant::now();
    for number in 0..known {
        let created = ask(
            &address,
            &Command::Create.request(&format!("warm-{number}")),
        )
        .await;
        assert!(is_done(&created), "{created}");
    }
    // Callers share the machine: moments up to some times the answer's own time.
    let longest = started.elapsed() / u32::try_from(known).unwrap() * 12;

    let id = |number| format!("O{number}");
    let begun = Instant::now();
    let all = stream::iter(0..cuts).map(|number| {
        let (command, address) = (Command::of(number), address.clone());
        async move {
            if command.cancels() {
                let created = ask(&address, &Command::Create.request(&id(number))).await;
                assert!(is_done(&created), "{created}");
            }
            cut(
                &address,
                &command.request(&id(number)),
                number * 10,
                longest,
            )
            .await;
        }
    });
    all.buffer_unordered(CALLERS).collect::<Vec<()>>().await;
    let took = begun.elapsed();

    let mut happened = 0;
    for number in 0..cuts {
        let (command, order_id) = (Command::of(number), id(number));
        let before = steps(&service, &order_id).await;
        let done = command.steps();
        assert!(
            before == done || before + 1 == done,
            "{order_id}: {before} steps"
        );
        happened += u64::from(before == done);
    }
    // The repetition shows whether it is done now, or was done before.
    let again = stream::iter(0..cuts).map(|number| {
        let (command, address, service) = (Command::of(number), address.clone(), &service);
        async move {
            let order_id = id(number);
            eventually("the command is done", async || {
                let answer = ask(&address, &command.request(&order_id)).await;
                let running = answer.contains("idempotency-key-in-use");
                assert!(is_done(&answer) || running, "{answer}");
                is_done(&answer).then_some(())
            })
            .await;
            assert_eq!(
                steps(service, &order_id).await,
                command.steps(),
                "{order_id}"
            );
        }
    });
    again.buffer_unordered(CALLERS).collect::<Vec<()>>().await;
    eprintln!(
        "{cuts} commands cut within {longest:?} in {took:?}: {happened} had happened, the others had not"
    );
    assert!(
        0 < happened && happened < cuts,
        "{happened} of {cuts}: no cut hit a request at work"
    );

    // More callers than connections, all of them served. Under load some wait too long for a connection and are asked to
    // come again; with a pool that lost connections, that would go on for ever.
    let crowd = stream::iter(0..64_u64).map(|number| {
        let address = address.clone();
        async move {
            let request = Command::Create.request(&format!("crowd-{number}"));
            eventually("a caller of the crowd is served", async || {
                let answer = ask(&address, &request).await;
                let is_load = answer.starts_with("HTTP/1.1 503")
                    && answer.to_lowercase().contains("retry-after:");
                assert!(is_done(&answer) || is_load, "{answer}");
                is_done(&answer).then_some(())
            })
            .await;
        }
    });
    crowd.buffer_unordered(64).collect::<Vec<()>>().await;
    if database.url.starts_with("postgres") {
        assert_no_transaction_stays_open(database).await;
    }
    assert_eq!(service.terminate().await.0, Some(0));
    assert_eq!(audit(database), (Some(0), "0 finding(s)\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_cut_at_random_happen_once_or_not_at_all_on_sqlite() {
    run(&Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_cut_at_random_happen_once_or_not_at_all_on_postgres() {
    run(&Database::postgres().await).await;
}
