//! `orderd reconcile`: one run, for a cron job or a person.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use order_store::{RunCounts, RunStart, RunState, StartedBy};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Exit, Finished};
use crate::app::{open_store, payment_service, question, reconciler};
use crate::config::Config;
use crate::{telemetry, wire};

/// How often progress is reported when standard error isn't a terminal.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The same on a terminal.
const PROGRESS_EVERY_TERMINAL: Duration = Duration::from_millis(200);

/// Carries out one run.
///
/// # Errors
/// If the database can't be used, or failed at the end.
pub async fn carry_out(
    config: &Config,
    dry_run: bool,
    json: bool,
    shutdown: CancellationToken,
) -> Result<Finished> {
    let store = open_store(config)?;
    let context = "orders cannot be reconciled";
    store.prepare(false).await.context(context)?;
    question::check(config).await.context(context)?;
    let service = payment_service(config, store.clone()).await?;
    let reconciler = reconciler(config, store.clone(), service);
    let run = match reconciler
        .begin(StartedBy::Cli, dry_run)
        .await
        .context(context)?
    {
        RunStart::Started(run) => run,
        RunStart::AlreadyRunning { id } => {
            let running = store.get_run(id.clone()).await.context(context)?;
            let text = if let Some(running) = running.filter(|_| json) {
                serde_json::to_string(&wire::Run::from(running))? + "\n"
            } else {
                format!("run skipped: another one is running ({id})\n")
            };
            tracing::info!(run.id = id, "run skipped: another one is running");
            return Ok(Finished::done(text));
        }
    };
    let (progress, seen) = watch::channel(RunCounts::default());
    let run = {
        let mut carried = Box::pin(reconciler.carry_out(run, progress, &shutdown));
        tokio::select! {
            biased;
            ended = &mut carried => ended,
            () = say_progress(seen) => carried.await,
        }
    };
    let run = run.context(context)?;
    let exit = match run.state {
        RunState::Done if dry_run && found(&run) => Exit::Found,
        RunState::Done => Exit::Done,
        RunState::Failed | RunState::Running => Exit::Failed,
    };
    let run = wire::Run::from(run);
    let text = if json {
        serde_json::to_string(&run)? + "\n"
    } else {
        table(&run)
    };
    Ok(Finished { text, exit })
}

fn found(run: &order_store::Run) -> bool {
    run.counts.healed + run.counts.cancelled > 0 || !run.findings.is_empty()
}

/// Reports the progress of a run while it lasts; on a terminal, in one line.
async fn say_progress(seen: watch::Receiver<RunCounts>) {
    let terminal = std::io::stderr().is_terminal();
    let every = if terminal {
        PROGRESS_EVERY_TERMINAL
    } else {
        PROGRESS_EVERY
    };
    let mut last = RunCounts::default();
    loop {
        tokio::time::sleep(every).await;
        let counts = *seen.borrow();
        if counts == last {
            continue;
        }
        last = counts;
        let (begin, end) = if terminal {
            ("\r\x1b[K", "")
        } else {
            ("", "\n")
        };
        let line = format!(
            "{begin}{} asked, {} healed, {} cancelled, {} pending, {} unknown{end}",
            counts.asked, counts.healed, counts.cancelled, counts.pending, counts.unknown
        );
        telemetry::say(&line);
    }
}

/// The run as a table.
fn table(run: &wire::Run) -> String {
    let what = if run.dry_run { "dry run" } else { "run" };
    let mut text = format!("{what} {} {}\n", run.id, run.state);
    let rows = [
        ("asked", run.asked),
        ("healed", run.healed),
        ("cancelled", run.cancelled),
        ("pending", run.pending),
        ("unknown", run.unknown),
        ("raced", run.raced),
        ("settled", run.settled),
        ("findings", run.findings.len() as u64),
    ];
    // Writing to a String cannot fail.
    for (name, count) in rows {
        let _ = writeln!(text, "{name:<10}{count:>10}");
    }
    for finding in &run.findings {
        let _ = writeln!(
            text,
            "{}\t{}\t{}",
            finding.order_id, finding.kind, finding.detail
        );
    }
    text
}
