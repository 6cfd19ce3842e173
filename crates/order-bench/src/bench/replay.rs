//! The same payments again: all of them are duplicates, and nothing changes.

use anyhow::Result;

use super::payments::drain_nats;
use super::{Bench, drain, settle};
use crate::database::Kind;
use crate::lab::World;
use crate::ledger::Ledger;
use crate::report::Section;
use crate::rivals;
use crate::traffic::{self, Payment};

const DUPLICATES: &str = "duplicates";
const NATS: &str = "nats";

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    section.compared = vec![(DUPLICATES, NATS)];
    let payments = bench.size.payments;
    for _ in 0..bench.size.rounds {
        let world = World::new(bench.lab, kind).await?;
        let nats = drain_nats(bench, &world, NATS).await?;
        world.close().await?;
        let world = bench.world(kind, payments).await?;
        rivals::statements(&world, payments).await?;
        traffic::publish(&world, 1, payments, Payment::Fitting).await?;
        let drained = drain(&world, DUPLICATES, payments, 0, None).await?;
        let run = settle(&world, drained, Ledger::all_paid(payments), None).await?;
        world.close().await?;
        section.rounds.push(vec![nats, run]);
    }
    Ok(section)
}
