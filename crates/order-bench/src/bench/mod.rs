//! The measurements, one a file.

mod footprint;
mod growth;
mod latency;
mod payments;
mod queries;
mod reconcile;
mod refusals;
mod relay;
mod replay;

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cli::{Cli, What};
use crate::database::Kind;
use crate::lab::{Lab, Servers, World};
use crate::ledger::Ledger;
use crate::numbers::{figure, rate};
use crate::orderd::Orderd;
use crate::report::{Report, Run, Section};
use crate::traffic;

/// How much work a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) rounds: usize,
    pub(crate) payments: u64,
    /// How long loops go on that are measured by time.
    pub(crate) seconds: Duration,
}

impl Size {
    /// Of a rival that takes one transaction per message.
    fn one_by_one(self, kind: Kind) -> u64 {
        let share = match kind {
            Kind::Postgres => 10,
            Kind::Sqlite => 20,
        };
        (self.payments / share).clamp(100, 20_000)
    }
}

/// All that a measurement needs.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    lab: &'a Lab,
    kinds: &'static [Kind],
    size: Size,
    begun: Instant,
}

impl<'a> Bench<'a> {
    /// As the command line says.
    pub(crate) fn new(cli: &Cli, lab: &'a Lab) -> Self {
        let (rounds, payments) = if cli.quick { (1, 30_000) } else { (5, 300_000) };
        let payments = cli.payments.unwrap_or(payments).max(400);
        let seconds = Duration::from_millis((payments / 30).clamp(200, 10_000));
        let rounds = cli.rounds.unwrap_or(rounds).max(1);
        Self {
            lab,
            kinds: cli.database.kinds(),
            size: Size {
                rounds,
                payments,
                seconds,
            },
            begun: Instant::now(),
        }
    }

    /// Measures.
    pub(crate) async fn run(&self, what: What) -> Result<Report> {
        let mut report = Report {
            machine: machine(self.size),
            sections: Vec::new(),
        };
        for &kind in self.kinds {
            for each in ALL {
                if what == each || what == What::All {
                    self.say(&format!("{} on {}", name(each), kind.name()));
                    let section =
                        Section::new(format!("{}.{}", kind.name(), name(each)), unit(each));
                    report
                        .sections
                        .push(self.measure(each, kind, section).await?);
                }
            }
        }
        between_databases(&mut report);
        self.say("done");
        Ok(report)
    }

    async fn measure(&self, what: What, kind: Kind, section: Section) -> Result<Section> {
        match what {
            What::Payments => payments::measure(self, kind, section).await,
            What::Refusals => refusals::measure(self, kind, section).await,
            What::Replay => replay::measure(self, kind, section).await,
            What::Relay => relay::measure(self, kind, section).await,
            What::Latency => latency::measure(self, kind, section).await,
            What::Queries => queries::measure(self, kind, section).await,
            What::Growth => growth::measure(self, kind, section).await,
            What::Reconcile => reconcile::measure(self, kind, section).await,
            What::Footprint | What::All => footprint::measure(self, kind, section).await,
        }
    }

    /// Reports progress.
    fn say(&self, what: &str) {
        // Standard error may be closed.
        let _ = writeln!(
            std::io::stderr(),
            "{:>4} s  {what}",
            self.begun.elapsed().as_secs()
        );
    }

    /// A world with unpaid orders.
    async fn world(&self, kind: Kind, orders: u64) -> Result<World<'a>> {
        let world = World::new(self.lab, kind).await?;
        world.database.seed(1, orders, false).await?;
        Ok(world)
    }
}

const ALL: [What; 9] = [
    What::Payments,
    What::Refusals,
    What::Replay,
    What::Relay,
    What::Latency,
    What::Queries,
    What::Growth,
    What::Reconcile,
    What::Footprint,
];

fn name(what: What) -> &'static str {
    match what {
        What::Payments => "payments",
        What::Refusals => "refusals",
        What::Replay => "replay",
        What::Relay => "relay",
        What::Latency => "latency",
        What::Queries => "queries",
        What::Growth => "growth",
        What::Reconcile => "reconcile",
        What::Footprint => "footprint",
        What::All => "all",
    }
}

fn unit(what: What) -> &'static str {
    match what {
        What::Payments | What::Refusals | What::Replay | What::Growth | What::Latency => "payments",
        What::Relay => "events",
        What::Queries => "reads",
        What::Reconcile => "orders",
        What::Footprint | What::All => "starts",
    }
}

/// SQLite beside PostgreSQL on the same work.
fn between_databases(report: &mut Report) {
    let named = |name: &str| report.sections.iter().find(|section| section.name == name);
    let (Some(postgres), Some(sqlite)) = (named("postgres.payments"), named("sqlite.payments"))
    else {
        return;
    };
    let mut section = Section::new("databases".to_owned(), "payments");
    section.compared = vec![("sqlite", "postgres")];
    for (one, other) in sqlite.rounds.iter().zip(&postgres.rounds) {
        let of = |round: &[Run], rival: &'static str| {
            let run = round.iter().find(|run| run.rival == payments::RELAY_OFF)?;
            Some(Run {
                rival,
                ..run.clone()
            })
        };
        section.rounds.push(
            [of(one, "sqlite"), of(other, "postgres")]
                .into_iter()
                .flatten()
                .collect(),
        );
    }
    report.sections.push(section);
}

fn machine(size: Size) -> Vec<(&'static str, String)> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    vec![
        (
            "cores",
            format!("{cores} × {}", model.map_or("unknown", |(_, model)| model)),
        ),
        ("load before", read("/proc/loadavg").trim().to_owned()),
        ("profile", profile.to_owned()),
        (
            "work",
            format!("{} payments, {} round(s)", size.payments, size.rounds),
        ),
    ]
}

/// CPU time between two looks, per unit.
fn cpu_each(
    lab: &Lab,
    before: Servers,
    orderd: Option<Duration>,
    units: u64,
) -> Vec<(&'static str, f64)> {
    cpu_between(before, lab.servers(), orderd, units)
}

fn cpu_between(
    before: Servers,
    now: Servers,
    orderd: Option<Duration>,
    units: u64,
) -> Vec<(&'static str, f64)> {
    let each = |time: Duration| time.as_secs_f64() * 1e6 / figure(units.max(1));
    let servers = [
        ("postgres", now.postgres, before.postgres),
        ("nats", now.nats, before.nats),
    ];
    let servers = servers
        .into_iter()
        .map(|(name, now, before)| (name, each(now.saturating_sub(before))));
    servers
        .chain(orderd.map(|time| ("orderd", each(time))))
        .collect()
}

/// What one service made of a backlog.
#[derive(Debug)]
struct Drained {
    run: Run,
    orderd: Orderd,
    /// Messages per transaction, on average.
    batch: f64,
}

/// Starts orderd on a backlog and waits until it is consumed and, with the relay on, until so many events are published.
async fn drain(
    world: &World<'_>,
    rival: &'static str,
    messages: u64,
    known: u64,
    events: Option<u64>,
) -> Result<Drained> {
    let before = world.lab.servers();
    // It begins to consume before it is ready.
    let (orderd, consumed, published) = tokio::try_join!(
        Orderd::start(world, events.is_some()),
        traffic::consumed(world, "orderd", messages, known),
        traffic::published(world, events.unwrap_or_default()),
    )?;
    let ended = consumed.ended.max(published.ended);
    let took = ended.duration_since(consumed.begun);
    let cpu = cpu_each(world.lab, before, Some(orderd.cpu()), messages);
    Ok(Drained {
        run: Run {
            rival,
            rate: rate(messages, took),
            cpu,
            differences: Vec::new(),
        },
        batch: orderd.metric("orderd_batch_size_sum").await?
            / orderd.metric("orderd_batch_size_count").await?.max(1.0),
        orderd,
    })
}

/// Compares with the ledger once orderd is stopped; with the relay on nothing may be left to publish.
async fn settle(
    world: &World<'_>,
    mut drained: Drained,
    ledger: Ledger,
    events: Option<u64>,
) -> Result<Run> {
    drained.orderd.stop().await?;
    let mut differences = ledger.differences(&world.database).await?;
    if let Some(events) = events {
        let published = world.published().await?;
        if published != events {
            differences.push(format!(
                "{published} events were published instead of {events}"
            ));
        }
        let mut conn = world.database.connect().await?;
        let left = conn.number(crate::sql::UNPUBLISHED).await?;
        conn.close().await?;
        if left != 0 {
            differences.push(format!("{left} events are left in the outbox"));
        }
    }
    drained.run.differences = differences;
    Ok(drained.run)
}
