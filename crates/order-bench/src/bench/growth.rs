//! The same payments with more and more orders in the database, a quarter of them in each of four statuses.

use anyhow::Result;

use super::{Bench, drain, settle};
use crate::database::Kind;
use crate::lab::World;
use crate::ledger::Ledger;
use crate::report::Section;
use crate::traffic::{self, Payment};

/// Orders that are there before, their name, and with how many payments of a run they are taken at all.
const LEVELS: [(u64, &str, u64); 4] = [
    (10_000, "10^4 orders", 0),
    (100_000, "10^5 orders", 10_000),
    (1_000_000, "10^6 orders", 100_000),
    (10_000_000, "10^7 orders", 300_000),
];

/// One round: filling takes much longer than measuring.
pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    let payments = bench.size.payments;
    let mut round = Vec::new();
    for (orders, name, least) in LEVELS {
        if payments < least {
            continue;
        }
        let world = World::new(bench.lab, kind).await?;
        world.database.seed(1, orders, true).await?;
        world
            .database
            .seed(orders + 1, orders + payments, false)
            .await?;
        traffic::publish(&world, orders + 1, orders + payments, Payment::Fitting).await?;
        let drained = drain(&world, name, payments, 0, None).await?;
        let ledger = Ledger {
            orders: orders + payments,
            unpaid_from: orders + 1,
            paid_from: orders + 1,
            paid_to: orders + payments,
            second: 0,
            mismatched: 0,
        };
        round.push(settle(&world, drained, ledger, None).await?);
        world.close().await?;
    }
    if let [smallest, .., largest] = round.as_slice() {
        section.compared = vec![(largest.rival, smallest.rival)];
    }
    section.rounds.push(round);
    Ok(section)
}
