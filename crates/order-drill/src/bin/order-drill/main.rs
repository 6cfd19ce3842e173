//! `order-drill`: throws payments at a running service and checks whether each counted once.

mod cli;
mod duel;
mod print;
mod seed;
mod serve;
mod show;

use std::process::ExitCode;

use clap::Parser;
use order_drill::{Plan, Progress};

use crate::cli::{Cli, Command, Everything};

const DIFFERENCES_FOUND: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    order_drill::choose_tls();
    let done = match Cli::parse().command {
        Command::Plan(all) => print::plan(&Plan::generate(&all.plan_options()), all.json),
        Command::Run(all) => drill(&all, Action::Run).await,
        Command::Throw(all) => drill(&all, Action::Throw).await,
        Command::Verify(all) => drill(&all, Action::Verify).await,
        Command::CancelAgainstPay(args) => duel::play(&args).await,
        Command::PaymentService(args) => serve::serve(&args).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENCES_FOUND),
        Err(error) => {
            print::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// What to do with a plan.
enum Action {
    Run,
    Throw,
    Verify,
}

/// Whether everything is as it must be.
async fn drill(all: &Everything, action: Action) -> anyhow::Result<bool> {
    let plan = Plan::generate(&all.plan_options());
    let done = perform(all, action, &plan).await;
    if done.is_err() {
        let Plan { seed, prefix, .. } = &plan;
        print::error(&format!("--seed {seed} --prefix {prefix}"));
    }
    done
}

async fn perform(all: &Everything, action: Action, plan: &Plan) -> anyhow::Result<bool> {
    let progress = Progress::default();
    let report = match action {
        Action::Run => show::during(&progress, order_drill::run(&all.run, plan, &progress)).await?,
        Action::Verify => {
            show::during(&progress, order_drill::verify(&all.run, plan, &progress)).await?
        }
        Action::Throw => {
            let work = order_drill::throw(&all.run, plan, &progress);
            let thrown = show::during(&progress, work).await?;
            return print::thrown(plan, &thrown, all.json);
        }
    };
    print::report(&report, all.json)
}
