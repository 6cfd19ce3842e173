//! The steps of a drill in a row.

use tokio::time::Instant;

use crate::session::{Session, within};
use crate::{Error, Plan, Progress, Report, RunOptions, Thrown};
use crate::{heal, throw as throwing, verify as verifying};

/// Throws the plan, waits until all is consumed, and compares; within the options' deadline.
pub async fn run(options: &RunOptions, plan: &Plan, progress: &Progress) -> Result<Report, Error> {
    let begun = Instant::now();
    let all = Box::pin(async {
        let session = Session::open(options, plan, progress).await?;
        let before = session.read_counters().await?;
        let thrown = throwing::throw(&session).await?;
        session.wait_until_acked().await?;
        heal::wait(&session).await;
        verifying::verify(&session, Some(&thrown), before).await
    });
    let mut report = within(options, progress, all).await?;
    report.duration = begun.elapsed();
    Ok(report)
}

/// Only throws; the same plan can be verified later.
pub async fn throw(
    options: &RunOptions,
    plan: &Plan,
    progress: &Progress,
) -> Result<Thrown, Error> {
    let all = Box::pin(async {
        let session = Session::open(options, plan, progress).await?;
        throwing::throw(&session).await
    });
    within(options, progress, all).await
}

/// Waits and compares; for a plan that was thrown before.
pub async fn verify(
    options: &RunOptions,
    plan: &Plan,
    progress: &Progress,
) -> Result<Report, Error> {
    let begun = Instant::now();
    let all = Box::pin(async {
        let session = Session::open(options, plan, progress).await?;
        if let Some(truth) = &session.truth {
            truth.everything_happens();
        }
        session.wait_until_acked().await?;
        heal::wait(&session).await;
        verifying::verify(&session, None, None).await
    });
    let mut report = within(options, progress, all).await?;
    report.duration = begun.elapsed();
    Ok(report)
}
