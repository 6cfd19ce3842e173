//! Payments that waited too long for their order: a person is told.

use std::time::Duration;

use order_fsm::Verdict;

use crate::conn::fetch_all;
use crate::error::{Error, doing};
use crate::exceptions::{self, Expected};
use crate::pay::Claim;
use crate::payments::{Payment, PaymentRow};
use crate::sql::reconcile as sql;
use crate::store::Store;
use crate::ts::Ts;

impl Store {
    /// Opens an exception for each payment that waits longer than `wait` for its order, at most
    /// `limit` of them; a dry run is rolled back. Returns how many.
    ///
    /// Each payment is locked, as by those who settle it: of both, one sees what the other did.
    pub async fn open_overdue(
        &self,
        wait: Duration,
        limit: u32,
        dry_run: bool,
    ) -> Result<u64, Error> {
        self.write_unless(dry_run, "ageing", move |tx| {
            Box::pin(async move {
                let until = Ts(tx.now().0 - wait);
                let rows = fetch_all!(
                    tx.conn(),
                    PaymentRow,
                    sql::PAYMENTS_OVERDUE,
                    until,
                    i64::from(limit)
                )
                .map_err(doing("looking for overdue payments"))?;
                let payments = rows
                    .into_iter()
                    .map(Payment::try_from)
                    .collect::<Result<Vec<_>, _>>()?;
                for payment in &payments {
                    let claim = Claim::from(payment);
                    let expected = Expected::nothing();
                    exceptions::open(tx, Verdict::WaitingForOrder, &claim, &expected).await?;
                }
                Ok(payments.len() as u64)
            })
        })
        .await
    }
}
