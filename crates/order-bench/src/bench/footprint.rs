//! Memory, idle and under a backlog with the relay on, and the time from the start of the process until it is ready.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, drain, settle};
use crate::database::Kind;
use crate::ledger::Ledger;
use crate::numbers::median;
use crate::orderd::Orderd;
use crate::report::Section;
use crate::traffic::{self, Payment};

/// What a service does once at its start is over by then.
const IDLE_AFTER: Duration = Duration::from_secs(2);

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    let payments = bench.size.payments;
    let world = bench.world(kind, payments).await?;
    let mut starts = Vec::new();
    for _ in 0..bench.size.rounds.max(3) {
        let orderd = Orderd::start(&world, true).await?;
        starts.push(orderd.ready_after.as_secs_f64());
        orderd.stop().await?;
    }
    section.figure("ready after", median(starts).unwrap_or_default(), "s");
    let orderd = Orderd::start(&world, true).await?;
    tokio::time::sleep(IDLE_AFTER).await;
    section.figure("memory, idle", orderd.memory()?.0, "MB");
    orderd.stop().await?;
    traffic::publish(&world, 1, payments, Payment::Fitting).await?;
    let drained = drain(&world, "loaded", payments, 0, Some(payments)).await?;
    section.figure("memory, loaded, at most", drained.orderd.memory()?.1, "MB");
    section.differences = settle(&world, drained, Ledger::all_paid(payments), Some(payments))
        .await?
        .differences;
    world.close().await?;
    Ok(section)
}
