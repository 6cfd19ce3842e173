//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use order_drill::{Anomalies, Names, PaymentService, PlanOptions, RunOptions};
use time::OffsetDateTime;

use crate::duel::DuelArgs;
use crate::serve::ServeArgs;

/// Throws payments at a running service and says, from outside, whether each counted once.
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
    /// Only throw; compare later with `verify`, the same seed, prefix and amounts
    Throw(Everything),
    /// Wait and compare; for what `throw` has thrown
    Verify(Everything),
    /// Say what would be thrown and what must come out
    Plan(Everything),
    /// Let a run that cancels overdue orders and the events that pay them go at the same moment, and compare; for a
    /// service with --check-after 1ms, --reconcile-every off, --last-check-after off, and nobody else's orders
    CancelAgainstPay(DuelArgs),
    /// Be a payment service that answers by a script, until SIGINT or SIGTERM
    PaymentService(ServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Everything {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is thrown")]
struct PlanArgs {
    /// Repeats a run; random if absent
    #[arg(long)]
    seed: Option<u64>,
    /// Start of every id; from seed and time if absent, so that runs can share a service
    #[arg(long)]
    prefix: Option<String>,
    /// Payment providers
    #[arg(long, value_delimiter = ',', default_value = "acme,globex,initech")]
    providers: Vec<String>,
    /// Orders besides those of the anomalies
    #[arg(long, default_value_t = 1_000)]
    orders: u32,
    /// Share of the orders that nobody pays
    #[arg(long, default_value_t = 0.1)]
    unpaid: f64,
    /// Failed or expired attempts per order, on average
    #[arg(long, default_value_t = 0.3)]
    attempts: f64,
    /// Share of the payments that are told more than once
    #[arg(long, default_value_t = 0.05)]
    duplicates: f64,
    /// Share of the orders created only after an event about them was stored
    #[arg(long, default_value_t = 0.05)]
    early: f64,
    /// Share of the paid orders whose success is never published
    #[arg(long, default_value_t = 0.0)]
    lose: f64,
    /// Demand that a reconciliation has healed the lost ones
    #[arg(long)]
    expect_healed: bool,
    /// How many of each anomaly whose one message is lost; needs --expect-healed
    #[arg(long, default_value_t = 0)]
    lost_anomalies: u32,
    /// Steps that are shuffled with one another
    #[arg(long, default_value_t = 5_000)]
    window: u32,
    /// Orders cancelled at the moment of their payment
    #[arg(long, default_value_t = 0)]
    cancels: u32,
    #[command(flatten)]
    anomalies: AnomalyArgs,
}

#[derive(Debug, Args)]
struct AnomalyArgs {
    /// How many of each anomaly; the next ones say it for a single one
    #[arg(long, default_value_t = 5)]
    anomalies: u32,
    #[arg(long)]
    second_payments: Option<u32>,
    #[arg(long)]
    amount_mismatches: Option<u32>,
    #[arg(long)]
    currency_mismatches: Option<u32>,
    #[arg(long)]
    conflicts: Option<u32>,
    #[arg(long)]
    reversals: Option<u32>,
    #[arg(long)]
    unsupported: Option<u32>,
    #[arg(long)]
    not_live: Option<u32>,
    #[arg(long)]
    never_created: Option<u32>,
    /// Dead letters of each known fault
    #[arg(long)]
    dead_letters: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "At what, and how")]
pub(crate) struct RunArgs {
    /// Base URL of the service
    #[arg(
        long,
        env = "ORDER_DRILL_HTTP",
        default_value = "http://127.0.0.1:8080"
    )]
    http: String,
    /// URLs of the broker, comma-separated
    #[arg(
        long,
        env = "NATS_URL",
        default_value = "nats://127.0.0.1:4222",
        hide_env_values = true
    )]
    nats: String,
    /// Bearer token
    #[arg(long, env = "ORDER_DRILL_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Publishes and creations under way at a time
    #[arg(long, default_value_t = 1_000)]
    in_flight: usize,
    /// HTTP requests under way at a time
    #[arg(long, default_value_t = 64)]
    http_in_flight: usize,
    /// The whole run ends by then
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    deadline: Duration,
    /// How long the consumer may take to become idle after the last publish
    #[arg(long, default_value = "2m", value_parser = humantime::parse_duration)]
    settle: Duration,
    /// How long a difference may take to go away
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    patience: Duration,
    /// Compare the counters of /metrics; for a service of this run alone that isn't restarted
    #[arg(long)]
    counters: bool,
    /// Compare exceptions and dead letters
    #[arg(long)]
    ops: bool,
    /// Compare the outbound stream
    #[arg(long)]
    events: bool,
    /// Be the payment service that the service asks, on this subject or address, and answer by what has happened
    #[arg(long, value_name = "nats:SUBJECT|http://ADDR")]
    payment_service: Option<PaymentService>,
    /// How long a reconciliation may take to heal what was lost, after all else is consumed
    #[arg(long, default_value = "2m", value_parser = humantime::parse_duration)]
    heal: Duration,
    #[arg(long, default_value = "PAYMENTS")]
    inbound_stream: String,
    #[arg(long, default_value = "payments.events")]
    inbound_subject: String,
    #[arg(long, default_value = "orderd")]
    consumer: String,
    #[arg(long, default_value = "ORDERS")]
    outbound_stream: String,
    #[arg(long, default_value = "orders.events")]
    outbound_prefix: String,
}

impl Everything {
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    pub(crate) fn plan_options(&self) -> PlanOptions {
        let args = &self.plan;
        let anomalies = &args.anomalies;
        // 32 bits are enough to tell runs apart, and can be read out.
        let seed = args
            .seed
            .unwrap_or_else(|| u64::from(rand::random::<u32>()));
        let each = |count: Option<u32>| count.unwrap_or(anomalies.anomalies);
        PlanOptions {
            seed,
            prefix: args.prefix.clone().unwrap_or_else(|| default_prefix(seed)),
            providers: args.providers.clone(),
            orders: args.orders,
            unpaid: args.unpaid,
            attempts: args.attempts,
            duplicates: args.duplicates,
            early: args.early,
            lose: args.lose,
            expect_healed: args.expect_healed,
            lost_anomalies: args.lost_anomalies,
            window: args.window,
            anomalies: Anomalies {
                second_payments: each(anomalies.second_payments),
                amount_mismatches: each(anomalies.amount_mismatches),
                currency_mismatches: each(anomalies.currency_mismatches),
                conflicts: each(anomalies.conflicts),
                reversals: each(anomalies.reversals),
                unsupported: each(anomalies.unsupported),
                not_live: each(anomalies.not_live),
                never_created: each(anomalies.never_created),
                dead_letters: each(anomalies.dead_letters),
            },
            cancels: args.cancels,
        }
    }

    pub(crate) fn run_options(&self) -> RunOptions {
        self.run.options()
    }
}

impl RunArgs {
    pub(crate) fn options(&self) -> RunOptions {
        let args = self;
        RunOptions {
            http: args.http.clone(),
            nats: args.nats.clone(),
            token: args.token.clone(),
            names: Names {
                inbound_stream: args.inbound_stream.clone(),
                inbound_subject: args.inbound_subject.clone(),
                consumer: args.consumer.clone(),
                outbound_stream: args.outbound_stream.clone(),
                outbound_prefix: args.outbound_prefix.clone(),
            },
            in_flight: args.in_flight,
            http_in_flight: args.http_in_flight,
            deadline: args.deadline,
            settle: args.settle,
            patience: args.patience,
            counters: args.counters,
            ops: args.ops,
            events: args.events,
            payment_service: args.payment_service.clone(),
            heal: args.heal,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time only makes the prefix unique"
)]
pub(crate) fn default_prefix(seed: u64) -> String {
    format!(
        "d{seed:x}-{:x}-",
        OffsetDateTime::now_utc().unix_timestamp()
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use order_drill::Plan;

    use super::{Cli, Command};

    #[test]
    fn the_command_line_is_well_formed() {
        <Cli as CommandFactory>::command().debug_assert();
    }

    #[test]
    fn the_default_prefix_fits_the_largest_seed() {
        let seed = u64::MAX.to_string();
        let cli = Cli::parse_from(["order-drill", "plan", "--orders", "1", "--seed", &seed]);
        let Command::Plan(all) = cli.command else {
            unreachable!("it was asked for a plan");
        };
        assert!(Plan::generate(&all.plan_options()).is_ok());
    }
}
