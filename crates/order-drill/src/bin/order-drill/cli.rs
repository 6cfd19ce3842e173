//! The command line.

use clap::{Args, Parser, Subcommand};
use order_drill::{PlanOptions, RunOptions};

use crate::duel::DuelArgs;
use crate::seed::Seed;
use crate::serve::ServeArgs;

/// Throws payments at a running service and checks, from outside, whether each counted once.
///
/// Exit codes: 0 no difference, 1 could not be carried out, 2 wrong usage, 3 differences found.
#[derive(Debug, Parser)]
#[command(name = "order-drill", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Throw, wait until all is consumed, compare
    Run(Everything),
    /// Only throw; compare later with `verify` and the same seed, prefix and amounts
    Throw(Everything),
    /// Wait and compare; for what `throw` has thrown
    Verify(Everything),
    /// Print what would be thrown and what must come out
    Plan(Everything),
    /// Let a run that cancels overdue orders race against the events that pay them, and compare; for a service with
    /// --reconcile-every off, --last-check-after off, and no other orders
    CancelAgainstPay(DuelArgs),
    /// Be a payment service that answers by a script, until SIGINT or SIGTERM
    PaymentService(ServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Everything {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is thrown")]
struct PlanArgs {
    #[command(flatten)]
    seed: Seed,
    /// Start of every id; made from seed and time if absent, so that runs can share a service
    #[arg(long, value_parser = order_drill::prefix)]
    prefix: Option<String>,
    #[command(flatten)]
    options: PlanOptions,
}

impl Everything {
    pub(crate) fn plan_options(&self) -> PlanOptions {
        let args = &self.plan;
        let (seed, prefix) = args.seed.with_prefix();
        PlanOptions {
            seed,
            prefix: args.prefix.clone().unwrap_or(prefix),
            ..args.options.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, Command};

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as CommandFactory>::command().debug_assert();
    }

    #[test]
    fn a_seed_is_the_start_of_the_prefix() {
        let cli = Cli::parse_from(["order-drill", "plan", "--orders", "1", "--seed", "7"]);
        let Command::Plan(all) = cli.command else {
            unreachable!("it was asked for a plan");
        };
        let options = all.plan_options();
        assert_eq!((options.seed, options.orders), (7, 1));
        assert!(options.prefix.starts_with("d7-"), "{}", options.prefix);
    }
}
