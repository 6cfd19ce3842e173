//! `order-drill cancel-against-pay`: round after round, one row of a table each.

use std::time::Duration;

use clap::{Args, value_parser};
use order_drill::{DuelOptions, Progress, RunOptions, duel};

use crate::seed::Seed;
use crate::{print, show};

#[derive(Debug, Args)]
pub(crate) struct DuelArgs {
    /// Orders of each round
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=100_000))]
    orders: u32,
    /// Number of rounds
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    #[command(flatten)]
    seed: Seed,
    /// The service's setting of that name: how long after its creation an order is due
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration)]
    check_after: Duration,
    #[command(flatten)]
    run: RunOptions,
}

const DIFFERENCES_SHOWN: usize = 20;

/// Says whether every order of every round ended as it may.
pub(crate) async fn play(args: &DuelArgs) -> anyhow::Result<bool> {
    let (seed, prefix) = args.seed.with_prefix();
    let (mut differences, mut paid, mut cancelled) = (0, 0, 0);
    row(&HEAD.map(str::to_owned))?;
    for number in 1..=args.rounds {
        let progress = Progress::default();
        let next = DuelOptions {
            orders: args.orders,
            seed: seed.wrapping_add(u64::from(number)),
            prefix: format!("{prefix}{number}-"),
            check_after: args.check_after,
        };
        let round = duel(&args.run, &next, &progress);
        let round = show::during(&progress, round).await?;
        let total = round.report.differences.total();
        row(&[
            number.to_string(),
            round.paid.to_string(),
            round.cancelled.to_string(),
            round.raced.to_string(),
            round.asked.to_string(),
            format!("{:.2}", round.duration.as_secs_f64()),
            total.to_string(),
        ])?;
        print::differences(&round.report.differences, DIFFERENCES_SHOWN)?;
        differences += total;
        paid += round.paid;
        cancelled += round.cancelled;
    }
    print::line(format_args!(
        "\npaid {paid}, cancelled {cancelled}, seed {seed}"
    ))?;
    print::line(format_args!("differences: {differences}"))?;
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

fn row(cells: &[String; 7]) -> anyhow::Result<()> {
    print::line(cells.each_ref().map(|cell| format!("{cell:>11}")).join(" "))
}
