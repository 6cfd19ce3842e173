//! `orderd reconcile`: one run, for an outside cron or a person.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use order_store::{RunCounts, RunStart, RunState, StartedBy};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{open_store, payment_service, reconciler};
use crate::config::Config;
use crate::run_wire;

/// How often the progress is said where nobody looks at a terminal.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The same on a terminal.
const PROGRESS_EVERY_TERMINAL: Duration = Duration::from_millis(200);

/// How a run ended, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// It came to its end, or another one is at work.
    Done,
    /// It didn't come to its end.
    Failed,
    /// A dry run found something to do.
    Found,
}

/// What came of a run.
#[derive(Debug)]
pub struct Reconciled {
    /// What is to be said.
    pub text: String,
    /// How it ended.
    pub ending: RunEnding,
}

/// Carries out one run.
///
/// # Errors
/// If the database can't be used, or failed at the end.
pub async fn reconcile(
    config: &Config,
    dry_run: bool,
    json: bool,
    shutdown: CancellationToken,
) -> Result<Reconciled> {
    let store = open_store(config);
    let context = "orders cannot be reconciled";
    store.check_schema().await.context(context)?;
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
                serde_json::to_string(&run_wire::Run::from(running))? + "\n"
            } else {
                format!("another run is at work ({id}); this one is left out\n")
            };
            tracing::info!(run.id = id, "another run is at work; this one is left out");
            return Ok(Reconciled {
                text,
                ending: RunEnding::Done,
            });
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
    let ending = match run.state {
        RunState::Done if dry_run && found(&run) => RunEnding::Found,
        RunState::Done => RunEnding::Done,
        RunState::Failed | RunState::Running => RunEnding::Failed,
    };
    let run = run_wire::Run::from(run);
    let text = if json {
        serde_json::to_string(&run)? + "\n"
    } else {
        table(&run)
    };
    Ok(Reconciled { text, ending })
}

fn found(run: &order_store::Run) -> bool {
    run.counts.healed + run.counts.cancelled > 0 || !run.findings.is_empty()
}

/// Says how far the run is, as long as it lasts: on a terminal in one line.
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
        // If standard error is gone there is nobody to tell.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// The run for people.
fn table(run: &run_wire::Run) -> String {
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
