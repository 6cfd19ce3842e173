//! `order-drill`: throws payments at a running service and says whether each counted once.

mod cli;
mod duel;
mod print;
mod serve;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use order_drill::{Plan, Progress};

use crate::cli::{Cli, Command, Everything};

const DIFFERENCES_FOUND: u8 = 3;
const WRONG_USAGE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    order_drill::choose_tls();
    let (all, deed) = match Cli::parse().command {
        Command::Run(all) => (all, Deed::Run),
        Command::Throw(all) => (all, Deed::Throw),
        Command::Verify(all) => (all, Deed::Verify),
        Command::Plan(all) => (all, Deed::Plan),
        Command::CancelAgainstPay(args) => return finish(duel::play(&args).await),
        Command::PaymentService(args) => return finish(serve::serve(&args).await.map(|()| true)),
    };
    let plan = match Plan::generate(&all.plan_options()) {
        Ok(plan) => plan,
        Err(error) => {
            print::error(&error.into());
            return ExitCode::from(WRONG_USAGE);
        }
    };
    let done = carry_out(deed, &all, &plan).await;
    if done.is_err() {
        print::repeat(&plan);
    }
    finish(done)
}

/// What to do with a plan.
enum Deed {
    Run,
    Throw,
    Verify,
    Plan,
}

/// Says whether everything is as it must be.
async fn carry_out(deed: Deed, all: &Everything, plan: &Plan) -> anyhow::Result<bool> {
    let options = all.run_options();
    let progress = Progress::default();
    let report = match deed {
        Deed::Plan => {
            print::plan(plan, all.json()).context("cannot print the plan")?;
            return Ok(true);
        }
        Deed::Throw => {
            let work = order_drill::throw(&options, plan, &progress);
            let thrown = watch::beside(&progress, work).await?;
            print::thrown(plan, &thrown, all.json()).context("cannot print the result")?;
            return Ok(thrown.differences.total() == 0);
        }
        Deed::Run => watch::beside(&progress, order_drill::run(&options, plan, &progress)).await?,
        Deed::Verify => {
            watch::beside(&progress, order_drill::verify(&options, plan, &progress)).await?
        }
    };
    print::report(&report, all.json()).context("cannot print the report")?;
    Ok(report.is_clean())
}

fn finish(done: anyhow::Result<bool>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENCES_FOUND),
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}
