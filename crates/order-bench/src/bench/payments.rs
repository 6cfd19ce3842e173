//! A backlog of payments for unpaid orders.

use anyhow::Result;

use super::{Bench, drain, settle};
use crate::database::Kind;
use crate::lab::World;
use crate::ledger::Ledger;
use crate::numbers::rate;
use crate::report::{Run, Section};
use crate::rivals;
use crate::traffic::{self, Payment};

pub(super) const RELAY_OFF: &str = "relay off";
const RELAY_ON: &str = "relay on";
const ARTICLES: &str = "articles";
const STATEMENTS: &str = "statements";
const NATS: &str = "nats";

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    section.compared = vec![
        (RELAY_OFF, ARTICLES),
        (RELAY_ON, ARTICLES),
        (RELAY_OFF, STATEMENTS),
        (RELAY_OFF, NATS),
    ];
    let payments = bench.size.payments;
    let mut hot = None;
    for _ in 0..bench.size.rounds {
        let mut round = vec![articles(bench, kind).await?, statements(bench, kind).await?];
        round.push(nats(bench, kind).await?);
        for (rival, events) in [(RELAY_OFF, None), (RELAY_ON, Some(payments))] {
            let world = bench.world(kind, payments).await?;
            traffic::publish(&world, 1, payments, Payment::Fitting).await?;
            let drained = drain(&world, rival, payments, 0, events).await?;
            section.figure(format!("batch, {rival}"), drained.batch, "messages");
            round.push(settle(&world, drained, Ledger::all_paid(payments), events).await?);
            let mut conn = world.database.connect().await?;
            hot = conn.hot_share().await?.or(hot);
            conn.close().await?;
            world.close().await?;
        }
        section.rounds.push(round);
    }
    if let Some(hot) = hot {
        section.figure("HOT updates of orders", hot, "%");
    }
    Ok(section)
}

async fn articles(bench: &Bench<'_>, kind: Kind) -> Result<Run> {
    let payments = bench.size.one_by_one(kind);
    let world = World::new(bench.lab, kind).await?;
    let before = bench.lab.servers();
    let (took, differences) = rivals::articles(&world, payments).await?;
    let cpu = super::cpu_each(bench.lab, before, None, payments);
    world.close().await?;
    Ok(Run {
        rival: ARTICLES,
        rate: rate(payments, took),
        cpu,
        differences,
    })
}

async fn statements(bench: &Bench<'_>, kind: Kind) -> Result<Run> {
    let payments = bench.size.payments;
    let world = bench.world(kind, payments).await?;
    let before = bench.lab.servers();
    let (took, now) = rivals::statements(&world, payments).await?;
    let cpu = super::cpu_between(before, now, None, payments);
    let differences = Ledger::all_paid(payments)
        .differences(&world.database)
        .await?;
    world.close().await?;
    Ok(Run {
        rival: STATEMENTS,
        rate: rate(payments, took),
        cpu,
        differences,
    })
}

async fn nats(bench: &Bench<'_>, kind: Kind) -> Result<Run> {
    let world = World::new(bench.lab, kind).await?;
    let run = drain_nats(bench, &world, NATS).await?;
    world.close().await?;
    Ok(run)
}

/// NATS without a database, on the stream of a world, which is empty before.
pub(super) async fn drain_nats(
    bench: &Bench<'_>,
    world: &World<'_>,
    rival: &'static str,
) -> Result<Run> {
    let payments = bench.size.payments;
    traffic::publish(world, 1, payments, Payment::Fitting).await?;
    let before = bench.lab.servers();
    let took = rivals::drain(world, payments).await?;
    Ok(Run {
        rival,
        rate: rate(payments, took),
        cpu: super::cpu_each(bench.lab, before, None, payments),
        differences: Vec::new(),
    })
}
