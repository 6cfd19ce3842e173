//! Dies at every crash point, starts again, and compares with the ledger.

use std::net::TcpListener;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use order_drill::{Anomalies, Plan, PlanOptions, Progress, RunOptions};

use crate::drill::against;
use crate::support::{Database, Payments, Service, audit};

/// Every point there is. One that a run never comes to fails the test.
const POINTS: &[&str] = &[
    "ingest:fetched",
    "recording:claimed",
    "paying:advanced",
    "paying:verdicts-written",
    "recording:judged",
    "recording:before-commit",
    "recording:after-commit",
    "recording:before-settling",
    "settling:before-commit",
    "settling:after-commit",
    "ingest:before-acks",
    "ingest:between-acks",
    "ingest:after-acks",
    "creating:inserted",
    "creating:before-commit",
    "creating:after-commit",
    "operating:advanced",
    "operating:before-commit",
    "operating:after-commit",
];

/// Runs at a time: what died unacked comes again after half a minute, so they mostly wait.
const AT_A_TIME: usize = 12;

const SIGABRT: i32 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_point_loses_nothing_and_doubles_nothing() {
    let runs = POINTS
        .iter()
        .flat_map(|point| [(*point, true), (*point, false)]);
    let runs = runs.map(|(point, postgres)| async move {
        let database = if postgres {
            Database::postgres().await
        } else {
            Database::sqlite()
        };
        let broken = dies_at(point, &database).await.err();
        broken.map(|what| format!("{point} on {}: {what}", database.url))
    });
    let done: Vec<Option<String>> = stream::iter(runs)
        .buffer_unordered(AT_A_TIME)
        .collect()
        .await;
    let broken: Vec<String> = done.into_iter().flatten().collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

async fn dies_at(point: &str, database: &Database) -> Result<(), String> {
    let payments = Payments::new().await;
    // The drill must find the second process where the first one was.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let at = [("ORDERD_HTTP_ADDR", address.as_str())];
    let dying = [at[0], ("CRASH_POINT", point)];
    let mut service = Service::start_with(database, &payments, &dying).await;

    let plan = Plan::generate(&PlanOptions {
        orders: 30,
        early: 0.3,
        duplicates: 0.3,
        anomalies: Anomalies::each(1),
        cancels: 5,
        ..PlanOptions::default()
    });
    let options = RunOptions {
        patience: Duration::from_secs(75),
        ..against(&service, &payments)
    };
    let progress = Progress::default();
    let drill = order_drill::run(&options, &plan, &progress);
    let crash = async {
        let signal = service.died().await;
        (signal, Service::start_with(database, &payments, &at).await)
    };
    let (report, (signal, service)) = tokio::join!(drill, crash);
    if signal != Some(SIGABRT) {
        return Err(format!("never came to it: {signal:?}"));
    }
    let report = report.map_err(|error| format!("{error:?}"))?;
    if report.differences.total() > 0 {
        return Err(format!("{:#?}", report.differences));
    }
    service.terminate().await;
    match audit(database) {
        (Some(0), _) => Ok(()),
        (code, printed) => Err(format!("audit {code:?}: {printed}")),
    }
}
