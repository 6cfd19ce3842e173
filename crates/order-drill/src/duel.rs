//! Cancelling against paying: orders that are overdue and, says the payment service, will never be paid; a run that cancels
//! them and the events that pay them are let go at the same moment. Each order must end `PAID`, or `CANCELLED` with an open
//! exception for its payment.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use crate::payment_service::{Answer, Script};
use crate::progress::Phase;
use crate::session::{Session, within};
use crate::throw::Hand;
use crate::{
    Anomalies, Difference, Error, Plan, PlanOptions, Progress, Report, RunOptions, Step, Verdict,
};

/// Long past, whatever the clock of the database says.
const PAY_BY: &str = "2026-01-01T00:00:00Z";
const RUNS: &str = "/v1/reconciliations";
/// The run must have asked by then; and be over so much later.
const PATIENCE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(50);

/// What came of one round.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// Orders that were paid.
    pub paid: u64,
    /// Orders that were cancelled.
    pub cancelled: u64,
    /// What the run says of itself.
    pub run: RunFigures,
    /// From letting go until the run was over and everything consumed.
    #[serde(rename = "duration_ms", serialize_with = "crate::report::milliseconds")]
    pub duration: Duration,
    /// The comparison, this round's own differences included.
    pub report: Report,
}

/// A run's figures.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the fields are the contract's")]
pub struct RunFigures {
    pub state: String,
    pub asked: u64,
    pub healed: u64,
    pub cancelled: u64,
    pub unknown: u64,
    pub raced: u64,
}

/// Plays one round against a service that asks the options' payment service and starts no run by itself.
pub async fn duel(
    options: &RunOptions,
    orders: u32,
    seed: u64,
    prefix: &str,
    progress: &Progress,
) -> Result<Round, Error> {
    let plan = Plan::generate(&PlanOptions {
        seed,
        prefix: prefix.to_owned(),
        orders: 0,
        cancels: orders,
        attempts: 0.0,
        anomalies: Anomalies::default(),
        ..PlanOptions::default()
    })?;
    let round = Box::pin(play(options, &plan, progress));
    within(options, progress, round).await
}

async fn play(options: &RunOptions, plan: &Plan, progress: &Progress) -> Result<Round, Error> {
    let script = Script::all(Answer::unpaid_for_good());
    let session = Session::open_with(options, plan, progress, script).await?;
    let hand = session.hand(Some(PAY_BY));
    let creations = plan
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Create(_)));
    progress.enter(Phase::Creating, plan.created());
    carry_out(hand, creations, options, progress).await?;

    let mock = session.mock().ok_or(Error::Option {
        option: "payment-service",
        allowed: "is needed: the service has to be told that nobody will pay",
    })?;
    mock.hold();
    let run = session.start_run(RUNS).await?;
    // Orders are due at once; whoever asks nobody could never cancel one.
    let asked = timeout(PATIENCE, mock.was_asked(1)).await;
    asked.map_err(|_| Error::NotAsked { waited: PATIENCE })?;
    let begun = Instant::now();
    mock.release();
    let messages = plan
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Publish(_)));
    progress.enter(Phase::Throwing, plan.messages.len() as u64);
    carry_out(hand, messages, options, progress).await?;
    session.settle().await?;
    let run = finished(&session, &run).await?;
    let duration = begun.elapsed();

    let report = session.verify(None, None).await?;
    Ok(Round::new(run, duration, report))
}

async fn carry_out(
    hand: Hand<'_>,
    steps: impl Iterator<Item = &Step>,
    options: &RunOptions,
    progress: &Progress,
) -> Result<(), Error> {
    let steps = steps.map(|step| hand.carry_out(*step));
    let mut done = stream::iter(steps).buffer_unordered(options.in_flight.max(1));
    while let Some(step) = done.next().await {
        progress.advance();
        step?;
    }
    Ok(())
}

async fn finished(session: &Session<'_>, path: &str) -> Result<RunFigures, Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let run = session.run_figures(path).await?;
        if run.state != "running" || Instant::now() >= until {
            return Ok(run);
        }
        sleep(PAUSE).await;
    }
}

impl Round {
    fn new(run: RunFigures, duration: Duration, mut report: Report) -> Self {
        let ended = |status: &str| report.statuses.get(status).copied().unwrap_or(0);
        let (paid, cancelled) = (ended("PAID"), ended("CANCELLED"));
        report.add(differences(&run, cancelled, &report));
        Self {
            paid,
            cancelled,
            run,
            duration,
            report,
        }
    }
}

/// The run must know what it did.
fn differences(run: &RunFigures, cancelled: u64, report: &Report) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut check = |what: &str, expected: String, found: String| {
        if expected != found {
            differences.push(Difference::new(
                format!("the run's {what}"),
                expected,
                found,
            ));
        }
    };
    check("state", "done".to_owned(), run.state.clone());
    check(
        "cancelled",
        cancelled.to_string(),
        run.cancelled.to_string(),
    );
    check("healed", "0".to_owned(), run.healed.to_string());
    let after_cancel = report.found(Verdict::PaidAfterCancel);
    if after_cancel != Some(cancelled) {
        let found = format!("{after_cancel:?}");
        differences.push(Difference::new(
            "payments after a cancel",
            cancelled.to_string(),
            found,
        ));
    }
    differences
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Round, RunFigures};
    use crate::{Anomalies, Plan, PlanOptions, Report};

    fn check(paid: u64, cancelled: u64, run: RunFigures, expect: &[&str]) {
        let plan = Plan::generate(&PlanOptions {
            orders: 0,
            anomalies: Anomalies::default(),
            ..PlanOptions::default()
        });
        let mut report = Report::of_nothing(&plan.unwrap());
        report.statuses.insert("PAID".to_owned(), paid);
        report.statuses.insert("CANCELLED".to_owned(), cancelled);
        for row in &mut report.verdicts {
            row.found = (row.verdict == "PAID_AFTER_CANCEL").then_some(4);
        }
        let round = Round::new(run, Duration::ZERO, report);
        let found: Vec<&str> = round
            .report
            .differences
            .iter()
            .map(|d| d.what.as_str())
            .collect();
        assert_eq!(found, expect);
        assert_eq!(round.report.differences_total, expect.len() as u64);
    }

    #[test]
    fn a_run_that_does_not_know_what_it_did_shows() {
        let run = |state: &str, cancelled: u64, healed: u64| RunFigures {
            state: state.to_owned(),
            cancelled,
            healed,
            ..RunFigures::default()
        };
        check(6, 4, run("done", 4, 0), &[]);
        check(6, 4, run("done", 5, 0), &["the run's cancelled"]);
        check(
            6,
            4,
            run("failed", 4, 1),
            &["the run's state", "the run's healed"],
        );
        let both = ["the run's cancelled", "payments after a cancel"];
        check(5, 5, run("done", 4, 0), &both);
    }
}
