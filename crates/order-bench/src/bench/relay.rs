//! A backlog of order events, made with the relay off, beside publishing as many messages with nothing behind them.

use std::time::Instant;

use anyhow::Result;

use super::{Bench, cpu_each};
use crate::database::Kind;
use crate::lab::World;
use crate::ledger::Ledger;
use crate::numbers::rate;
use crate::orderd::Orderd;
use crate::report::{Run, Section};
use crate::traffic::{self, Payment};
use crate::{rivals, sql};

const RELAY: &str = "relay";
const PUBLISH: &str = "publishing alone";

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    section.compared = vec![(RELAY, PUBLISH)];
    for _ in 0..bench.size.rounds {
        let alone = publish(bench, kind).await?;
        let relay = relay(bench, kind).await?;
        section.rounds.push(vec![alone, relay]);
    }
    Ok(section)
}

async fn publish(bench: &Bench<'_>, kind: Kind) -> Result<Run> {
    let events = bench.size.payments;
    let world = World::new(bench.lab, kind).await?;
    let before = bench.lab.servers();
    let begun = Instant::now();
    let subject = format!("{}.paid", world.prefix);
    let bodies = (1..=events).map(|number| traffic::event(number, Payment::Fitting));
    traffic::publish_all(&world, &subject, bodies).await?;
    let took = begun.elapsed();
    let cpu = cpu_each(bench.lab, before, None, events);
    let there = world.published().await?;
    world.close().await?;
    Ok(Run {
        rival: PUBLISH,
        rate: rate(events, took),
        cpu,
        differences: (there != events)
            .then(|| format!("{there} of {events} are there"))
            .into_iter()
            .collect(),
    })
}

async fn relay(bench: &Bench<'_>, kind: Kind) -> Result<Run> {
    let events = bench.size.payments;
    let world = bench.world(kind, events).await?;
    rivals::statements(&world, events).await?;
    let before = bench.lab.servers();
    let (orderd, published) = tokio::try_join!(
        Orderd::start(&world, true),
        traffic::published(&world, events)
    )?;
    let took = published.took();
    let cpu = cpu_each(bench.lab, before, Some(orderd.cpu()), events);
    orderd.stop().await?;
    let mut differences = Ledger::all_paid(events)
        .differences(&world.database)
        .await?;
    let published = world.published().await?;
    let mut conn = world.database.connect().await?;
    let left = conn.number(sql::UNPUBLISHED).await?;
    conn.close().await?;
    if (published, left) != (events, 0) {
        differences.push(format!(
            "{published} of {events} events are published, {left} are in the outbox"
        ));
    }
    world.close().await?;
    Ok(Run {
        rival: RELAY,
        rate: rate(events, took),
        cpu,
        differences,
    })
}
