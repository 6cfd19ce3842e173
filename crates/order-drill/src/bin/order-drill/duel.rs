//! `order-drill cancel-against-pay`: round after round, a row of a table each.

use std::io::{self, Write};

use anyhow::Context;
use clap::Args;
use order_drill::{Progress, Round, duel};

use crate::cli::{RunArgs, default_prefix};
use crate::watch;

#[derive(Debug, Args)]
pub(crate) struct DuelArgs {
    /// Orders of each round
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    orders: u32,
    /// How many rounds
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Repeats the rounds; random if absent
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    run: RunArgs,
}

const DIFFERENCES_SHOWN: usize = 20;

/// Says whether every order of every round ended as it may.
pub(crate) async fn play(args: &DuelArgs) -> anyhow::Result<bool> {
    let options = args.run.options();
    let seed = args
        .seed
        .unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let prefix = default_prefix(seed);
    let mut differences = 0;
    let (mut paid, mut cancelled) = (0, 0);
    print_row(&HEAD.map(str::to_owned))?;
    for number in 1..=args.rounds {
        let progress = Progress::default();
        let (seed, prefix) = (
            seed.wrapping_add(u64::from(number)),
            format!("{prefix}{number}-"),
        );
        let round = duel(&options, args.orders, seed, &prefix, &progress);
        let round = watch::beside(&progress, round).await?;
        print_row(&row(number, &round))?;
        for difference in round.report.differences.iter().take(DIFFERENCES_SHOWN) {
            say(&difference.to_string())?;
        }
        differences += round.report.differences_total;
        paid += round.paid;
        cancelled += round.cancelled;
    }
    say(&format!(
        "\npaid {paid}, cancelled {cancelled}, seed {seed}"
    ))?;
    say(&format!("differences: {differences}"))?;
    Ok(differences == 0)
}

const HEAD: [&str; 7] = [
    "round",
    "paid",
    "cancelled",
    "raced",
    "asked",
    "seconds",
    "differences",
];

fn row(number: u32, round: &Round) -> [String; 7] {
    [
        number.to_string(),
        round.paid.to_string(),
        round.cancelled.to_string(),
        round.run.raced.to_string(),
        round.run.asked.to_string(),
        format!("{:.2}", round.duration.as_secs_f64()),
        round.report.differences_total.to_string(),
    ]
}

fn print_row(cells: &[String; 7]) -> anyhow::Result<()> {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>11}")).collect();
    say(&cells.join(" "))
}

fn say(line: &str) -> anyhow::Result<()> {
    writeln!(io::stdout().lock(), "{line}").context("cannot write to standard output")
}
