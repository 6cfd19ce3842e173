//! Payments that waited too long for their order become exceptions, for a person to decide.

use std::time::Duration;

use order_fsm::Verdict;

use crate::claim::Claim;
use crate::error::{Error, doing};
use crate::exceptions::{self, Expected, NewException};
use crate::payments::Payment;
use crate::rows::{Checked, sort_out};
use crate::run::fetch_all;
use crate::sql;
use crate::store::Store;
use crate::tx::Tx;
use crate::waiting::WaitingRange;

impl Store {
    /// Opens an exception for each payment of a range that waits longer than `wait` for its order;
    /// a dry run is rolled back. Returns how many.
    ///
    /// Each payment is locked, as it is for settling: the later of the two sees what the earlier one did.
    pub async fn open_overdue(
        &self,
        wait: Duration,
        range: WaitingRange,
        dry_run: bool,
    ) -> Result<u64, Error> {
        self.write_unless(dry_run, "ageing", (wait, range), open)
            .await
    }
}

async fn open(tx: &mut Tx, (wait, range): &(Duration, WaitingRange)) -> Result<u64, Error> {
    let received_until = tx.now().minus(*wait);
    let (after, until) = (range.after(), range.until());
    let rows = fetch_all!(
        tx.conn(),
        Checked<Payment>,
        sql::payments::OVERDUE,
        received_until,
        after.0,
        after.1,
        after.2,
        until.0,
        until.1,
        until.2
    )
    .map_err(doing("looking for overdue payments"))?;
    let (payments, unreadable) = sort_out(rows);
    tx.note_unreadable(&unreadable);
    let overdue = payments.iter().map(|payment| {
        let claim = Claim::from(payment);
        NewException::new(Verdict::WaitingForOrder, claim, Expected::nothing())
    });
    exceptions::open(tx, overdue.collect()).await?;
    Ok(payments.len() as u64)
}
