//! Measures orderd beside its rivals in the same run.
//!
//! Private servers (`lab`), one database and two streams per run (`lab::World`), the built `orderd` as a process (`orderd`), and
//! a ledger that knows the result before (`ledger`). The rivals are in `rivals`; each measurement is a file in `bench`. It
//! knows what the service promises and, for one rival, the calls of `order-store`; nothing depends on it.

mod bench;
mod charts;
mod cli;
mod cpu;
mod database;
mod http;
mod lab;
mod ledger;
mod numbers;
mod orderd;
mod report;
mod rivals;
mod sql;
mod traffic;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::bench::Bench;
use crate::cli::Cli;
use crate::lab::Lab;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If this fails there is no other way to report the error.
            let _ = writeln!(std::io::stderr(), "order-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every run had the result of its ledger.
async fn run(cli: Cli) -> Result<bool> {
    let orderd = match &cli.orderd {
        Some(named) => named.clone(),
        None => std::env::current_exe()?.with_file_name("orderd"),
    };
    let lab = Lab::open(cli.database.kinds(), orderd, cli.prepare.clone())?;
    let report = Bench::new(&cli, &lab).run(cli.what).await?;
    let text = if cli.json {
        format!("{:#}\n", report.json())
    } else {
        report.text()
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("the report can't be printed")?;
    if let Some(folder) = &cli.charts {
        charts::write(&report, folder)?;
    }
    Ok(report.is_clean())
}
