//! `order-drill`: throws payments at a running service and says whether each counted once.

mod cli;
mod print;
mod watch;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use order_drill::{Plan, Progress};

use crate::cli::{Cli, Command};

const DIFFERENCES_FOUND: u8 = 3;
const WRONG_USAGE: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let plan = match Plan::generate(&cli.plan_options()) {
        Ok(plan) => plan,
        Err(error) => {
            print::error(&error.into());
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match carry_out(&cli, &plan).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENCES_FOUND),
        Err(error) => {
            print::error(&error);
            print::repeat(&plan);
            ExitCode::FAILURE
        }
    }
}

/// Says whether everything is as it must be.
async fn carry_out(cli: &Cli, plan: &Plan) -> anyhow::Result<bool> {
    // Only one provider is compiled in, and that it is installed twice is no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = cli.run_options();
    let progress = Progress::default();
    let report = match cli.command() {
        Command::Plan(_) => {
            print::plan(plan, cli.json()).context("cannot print the plan")?;
            return Ok(true);
        }
        Command::Throw(_) => {
            let work = order_drill::throw(&options, plan, &progress);
            let thrown = watch::beside(&progress, work).await?;
            print::thrown(plan, &thrown, cli.json()).context("cannot print the result")?;
            return Ok(thrown.differences.total() == 0);
        }
        Command::Run(_) => {
            watch::beside(&progress, order_drill::run(&options, plan, &progress)).await?
        }
        Command::Verify(_) => {
            watch::beside(&progress, order_drill::verify(&options, plan, &progress)).await?
        }
    };
    print::report(&report, cli.json()).context("cannot print the report")?;
    Ok(report.is_clean())
}
