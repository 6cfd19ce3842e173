//! Cancelling against paying: the orders are overdue and, as the payment service says, will never be paid. A run that cancels
//! them and the events that pay them are released at the same moment. Each order must end `PAID`, or `CANCELLED` with an open
//! exception for its payment.

use std::time::Duration;

use order_payment_mock::{Answer, Mock, Script};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::difference::Check;
use crate::plan::Step;
use crate::session::{Session, within};
use crate::throw::{Thrown, perform};
use crate::verify::verify;
use crate::view::RunView;
use crate::words::Verdict;
use crate::{Anomalies, Error, Plan, PlanOptions, Progress, Report, RunOptions};

/// Long past, whatever the clock of the database says.
const PAY_BY: &str = "2026-01-01T00:00:00Z";
const RUNS: &str = "/v1/reconciliations";
/// The time that a run has to ask, and then to end.
const PATIENCE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(50);

/// What came of one round.
#[derive(Debug, Clone)]
pub struct Round {
    /// Orders that were paid.
    pub paid: u64,
    /// Orders that were cancelled.
    pub cancelled: u64,
    /// Orders that were paid while the run was about to cancel them, as the run says.
    pub raced: u64,
    /// Orders that the run asked about, as it says.
    pub asked: u64,
    /// From the release until the run was over and everything consumed.
    pub duration: Duration,
    /// The comparison, including the differences of this round.
    pub report: Report,
}

/// What a round is made of.
#[derive(Debug, Clone)]
pub struct DuelOptions {
    /// The number of orders.
    pub orders: u32,
    /// The source of everything random.
    pub seed: u64,
    /// The start of every id.
    pub prefix: String,
    /// The service's setting: how long after its creation an order is due.
    pub check_after: Duration,
}

/// Plays one round against a service that asks the options' payment service and starts no run by itself.
pub async fn duel(
    options: &RunOptions,
    duel: &DuelOptions,
    progress: &Progress,
) -> Result<Round, Error> {
    let plan = Plan::generate(&PlanOptions {
        seed: duel.seed,
        prefix: duel.prefix.clone(),
        orders: 0,
        cancels: duel.orders,
        attempts: 0.0,
        anomalies: Anomalies::default(),
        ..PlanOptions::default()
    });
    let round = Box::pin(play(options, &plan, duel.check_after, progress));
    within(options, progress, round).await
}

async fn play(
    options: &RunOptions,
    plan: &Plan,
    check_after: Duration,
    progress: &Progress,
) -> Result<Round, Error> {
    let script = Script::all(Answer::unpaid_for_good());
    let session = Session::open_with(options, plan, progress, script).await?;
    let mock = session.mock.as_ref().ok_or_else(|| {
        let why = "the payment service has to say that no payment will come";
        Error::new(format!("--payment-service is needed: {why}"))
    })?;
    let (creations, rest): (Vec<Step>, Vec<Step>) = plan
        .steps
        .iter()
        .partition(|step| matches!(step, Step::Create(_)));
    // The cancellations are up to the run.
    let mut messages = rest;
    messages.retain(|step| matches!(step, Step::Publish(_)));
    progress.enter("creating orders", plan.created());
    let mut thrown = Thrown::default();
    perform(&session, &creations, Some(PAY_BY), &mut thrown).await?;
    sleep(check_after).await;

    mock.hold();
    let run = start_run(&session, mock).await?;
    let begun = Instant::now();
    progress.enter("throwing", messages.len() as u64);
    let (ahead, beside) = messages.split_at(head_start(plan.seed, messages.len()));
    perform(&session, ahead, None, &mut thrown).await?;
    mock.release();
    perform(&session, beside, None, &mut thrown).await?;
    session.wait_until_acked().await?;
    let run = finished(&session, &run).await?;
    let duration = begun.elapsed();

    let mut report = verify(&session, None, None).await?;
    report.differences.absorb(thrown.differences);
    Ok(Round::new(&run, duration, report))
}

/// How many messages are published while the run still waits for its first answer, which is then outdated: none to three
/// eighths, so that either side wins somewhere, however fast it is.
fn head_start(seed: u64, messages: usize) -> usize {
    messages * usize::try_from(seed % 4).unwrap_or(0) / 8
}

/// Starts a run and waits until it has asked; returns its path.
async fn start_run(session: &Session<'_>, mock: &Mock) -> Result<String, Error> {
    let answer = session.api.post(RUNS, &json!({})).await;
    let Some(run) = answer.location.clone().filter(|_| answer.status == 202) else {
        return Err(answer.unusable(&format!("POST {RUNS}")));
    };
    let asked = timeout(PATIENCE, mock.was_asked(1)).await;
    asked.map_err(|_| {
        let check = "set the service's ORDERD_PAYMENT_QUERY to --payment-service";
        Error::new(format!(
            "the run {run} asked nothing within {PATIENCE:?}; {check}"
        ))
    })?;
    Ok(run)
}

async fn finished(session: &Session<'_>, path: &str) -> Result<RunView, Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = session.api.get(path).await;
        let run: RunView = serde_json::from_slice(&answer.body)
            .map_err(|_| answer.unusable(&format!("GET {path}")))?;
        if run.state != "running" || Instant::now() >= until {
            return Ok(run);
        }
        sleep(PAUSE).await;
    }
}

impl Round {
    /// The run must know what it did.
    fn new(run: &RunView, duration: Duration, mut report: Report) -> Self {
        let ended = |status: &str| report.statuses.get(status).copied().unwrap_or(0);
        let (paid, cancelled) = (ended("PAID"), ended("CANCELLED"));
        let mut found = Vec::new();
        let mut check = Check::of("the run", &mut found);
        check.same("state", "done", &run.state);
        check.same("cancelled", &cancelled, &run.cancelled);
        check.same("healed", &0, &run.healed);
        let after_cancel = report.found(Verdict::PaidAfterCancel).unwrap_or(0);
        check.same("payments after a cancel", &cancelled, &after_cancel);
        report.differences.extend(found);
        Self {
            paid,
            cancelled,
            raced: run.raced,
            asked: run.asked,
            duration,
            report,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Round;
    use crate::compare::Comparison;
    use crate::view::RunView;
    use crate::{Anomalies, Plan, PlanOptions, Report};

    fn check(paid: u64, cancelled: u64, run: &RunView, expect: &[&str]) {
        let plan = Plan::generate(&PlanOptions {
            orders: 0,
            anomalies: Anomalies::default(),
            ..PlanOptions::default()
        });
        let mut report = Report::new(&plan, None, Comparison::default(), None, None);
        report.statuses.insert("PAID".to_owned(), paid);
        report.statuses.insert("CANCELLED".to_owned(), cancelled);
        for row in &mut report.verdicts {
            row.found = (row.verdict == "PAID_AFTER_CANCEL").then_some(4);
        }
        let differences = Round::new(run, Duration::ZERO, report).report.differences;
        let found: Vec<&str> = differences.kept().iter().map(|d| &*d.what).collect();
        assert_eq!(found, expect);
        assert_eq!(differences.total(), expect.len() as u64);
    }

    #[test]
    fn a_run_that_does_not_know_what_it_did_shows() {
        let run = |state: &str, cancelled: u64, healed: u64| RunView {
            state: state.to_owned(),
            cancelled,
            healed,
            ..RunView::default()
        };
        check(6, 4, &run("done", 4, 0), &[]);
        check(6, 4, &run("done", 5, 0), &["the run, cancelled"]);
        check(
            6,
            4,
            &run("failed", 4, 1),
            &["the run, state", "the run, healed"],
        );
        let both = ["the run, cancelled", "the run, payments after a cancel"];
        check(5, 5, &run("done", 4, 0), &both);
    }
}
