//! Payments that don't fit: second ones and ones of another amount, beside those that apply. Each refusal writes a payment, an
//! exception, its event and a line of the history.

use anyhow::Result;

use super::{Bench, drain, settle};
use crate::database::Kind;
use crate::ledger::Ledger;
use crate::report::Section;
use crate::traffic::{self, Payment};

const APPLIED: &str = "applied";
const SECOND: &str = "second payments";
const MISMATCH: &str = "mismatches";

pub(super) async fn measure(
    bench: &Bench<'_>,
    kind: Kind,
    mut section: Section,
) -> Result<Section> {
    section.compared = vec![(SECOND, APPLIED), (MISMATCH, APPLIED)];
    let payments = (bench.size.payments / 3).max(200);
    for _ in 0..bench.size.rounds {
        let world = bench.world(kind, payments).await?;
        let paid = Ledger::all_paid(payments);
        traffic::publish(&world, 1, payments, Payment::Fitting).await?;
        let applied = drain(&world, APPLIED, payments, 0, None).await?;
        let applied = settle(&world, applied, paid, None).await?;
        traffic::publish(&world, 1, payments, Payment::Second).await?;
        let second = drain(&world, SECOND, payments, payments, None).await?;
        let ledger = Ledger {
            second: payments,
            ..paid
        };
        let second = settle(&world, second, ledger, None).await?;
        world.close().await?;
        let world = bench.world(kind, payments).await?;
        traffic::publish(&world, 1, payments, Payment::Mismatch).await?;
        let mismatch = drain(&world, MISMATCH, payments, 0, None).await?;
        let ledger = Ledger {
            paid_to: 0,
            mismatched: payments,
            ..paid
        };
        let mismatch = settle(&world, mismatch, ledger, None).await?;
        world.close().await?;
        section.rounds.push(vec![applied, second, mismatch]);
    }
    Ok(section)
}
