//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::database::Kind;

/// Measures orderd beside its rivals, on private servers.
///
/// Every rival runs in every round, one after the other, so that a ratio compares runs of the same minute. After each run the
/// database is compared with what was sent and audited; a ratio of a run with a difference is refused, and the exit code is 1.
#[derive(Debug, Clone, Parser)]
#[command(name = "order-bench", version)]
pub(crate) struct Cli {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) what: What,
    /// Little work and one round: figures to look at, not to publish.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// The database.
    #[arg(long, value_enum, default_value = "both")]
    pub(crate) database: Databases,
    /// Rounds; figures are medians over them (5, or 1 with --quick).
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Payments of a run (300,000, or 30,000 with --quick); everything else shrinks with it.
    #[arg(long)]
    pub(crate) payments: Option<u64>,
    /// The orderd that is measured; by default the one beside this program.
    #[arg(long)]
    pub(crate) orderd: Option<PathBuf>,
    /// Run this SQL on every PostgreSQL database before it is filled, to try a setting.
    #[arg(long)]
    pub(crate) prepare: Option<String>,
    /// Write SVG charts into this folder.
    #[arg(long)]
    pub(crate) charts: Option<PathBuf>,
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// A backlog of payments: the articles' design, statements without NATS, NATS without statements, relay off, relay on
    /// until everything is published.
    Payments,
    /// Second payments and mismatches, beside payments that apply.
    Refusals,
    /// The same payments again, beside NATS without a database.
    Replay,
    /// A backlog of order events, beside publishing alone.
    Relay,
    /// From publish to commit at fixed rates.
    Latency,
    /// Reads over HTTP, beside the prepared point select.
    Queries,
    /// Payments with more and more orders in the database.
    Growth,
    /// Due orders that the payment service is asked about.
    Reconcile,
    /// Memory, idle and loaded, and the time to start.
    Footprint,
    /// All of them.
    All,
}

/// On which databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Databases {
    Postgres,
    Sqlite,
    Both,
}

impl Databases {
    /// One by one.
    pub(crate) fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Postgres => &[Kind::Postgres],
            Self::Sqlite => &[Kind::Sqlite],
            Self::Both => &[Kind::Postgres, Kind::Sqlite],
        }
    }
}
