//! What each order must look like after a run, known before it: the plan is a formula over the order's number.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::database::{Database, Row};
use crate::numbers::count;
use crate::sql;

/// How many differences are kept; the others are counted.
const KEPT_MAX: usize = 5;

/// The plan of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ledger {
    /// Orders 1 to this number exist.
    pub(crate) orders: u64,
    /// Orders from this number on were there unpaid, those before it mixed: see `sql::SEED`.
    pub(crate) unpaid_from: u64,
    /// Orders from this number on were paid by the run, up to ...
    pub(crate) paid_from: u64,
    /// ... this one.
    pub(crate) paid_to: u64,
    /// How many payments were refused as second ones.
    pub(crate) second: u64,
    /// How many payments were refused because of their amount.
    pub(crate) mismatched: u64,
}

/// The id of an order.
pub(crate) fn order_id(number: u64) -> String {
    format!("OD-{number:010}")
}

/// The transaction that pays an order: each has one of its own, and they don't come in order, as real ones don't.
pub(crate) fn transaction_id(number: u64) -> String {
    format!("tx-{:010}", number * 1_103_515_245 % 2_147_483_648)
}

/// Status and version of a mixed order.
pub(crate) fn mixed(number: u64) -> (&'static str, i64) {
    match number % 4 {
        0 => ("NOT_PAID", 1),
        1 => ("PAID", 2),
        2 => ("DONE", 4),
        _ => ("CANCELLED", 2),
    }
}

impl Ledger {
    /// Orders 1 to `orders`, all of them unpaid before and paid by the run.
    pub(crate) fn all_paid(orders: u64) -> Self {
        Self {
            orders,
            unpaid_from: 1,
            paid_from: 1,
            paid_to: orders,
            second: 0,
            mismatched: 0,
        }
    }

    /// Orders 1 to `orders`, mixed, none of which was touched.
    pub(crate) fn untouched(orders: u64) -> Self {
        Self {
            unpaid_from: orders + 1,
            paid_from: 1,
            paid_to: 0,
            ..Self::all_paid(orders)
        }
    }

    fn expected(self, number: u64) -> Row {
        let (status, version) = if (self.paid_from..=self.paid_to).contains(&number) {
            ("PAID", 2)
        } else if number >= self.unpaid_from {
            ("NOT_PAID", 1)
        } else {
            mixed(number)
        };
        let paid = matches!(status, "PAID" | "DONE");
        Row {
            order_id: order_id(number),
            status: status.to_owned(),
            version,
            transaction_id: paid.then(|| transaction_id(number)),
        }
    }

    fn verdicts(self) -> BTreeMap<String, u64> {
        let mixed =
            (1..self.unpaid_from.min(self.orders + 1)).filter(|number| matches!(number % 4, 1 | 2));
        let paid = (self.paid_to + 1).saturating_sub(self.paid_from);
        let all = [
            ("APPLIED", count(mixed.count()) + paid),
            ("SECOND_PAYMENT", self.second),
            ("AMOUNT_MISMATCH", self.mismatched),
        ];
        let there = all.into_iter().filter(|(_, count)| *count > 0);
        there
            .map(|(verdict, count)| (verdict.to_owned(), count))
            .collect()
    }

    /// Compares the database with the plan and audits it; what differs, in words.
    pub(crate) async fn differences(self, database: &Database) -> Result<Vec<String>> {
        let mut found = Differences::default();
        let mut conn = database.connect().await?;
        let mut number = 0;
        conn.orders(|row| {
            number += 1;
            let expected = self.expected(number);
            if row != expected {
                found.add(format!("{row:?} instead of {expected:?}"));
            }
        })
        .await?;
        if number != self.orders {
            found.add(format!("{number} orders instead of {}", self.orders));
        }
        let verdicts = conn.counts(sql::VERDICTS).await?;
        let verdicts = verdicts
            .into_iter()
            .map(|(verdict, count)| Ok((verdict, u64::try_from(count)?)));
        let verdicts = verdicts.collect::<Result<BTreeMap<_, _>>>()?;
        if verdicts != self.verdicts() {
            found.add(format!(
                "verdicts {verdicts:?} instead of {:?}",
                self.verdicts()
            ));
        }
        let exceptions = conn.number(sql::EXCEPTIONS).await?;
        if u64::try_from(exceptions)? != self.second + self.mismatched {
            let expected = self.second + self.mismatched;
            found.add(format!("{exceptions} exceptions instead of {expected}"));
        }
        conn.close().await?;
        let store = database.store()?;
        for finding in store.audit().await? {
            found.add(format!("audit: {finding}"));
        }
        store.close().await;
        Ok(found.into_lines())
    }
}

#[derive(Debug, Default)]
struct Differences {
    kept: Vec<String>,
    more: usize,
}

impl Differences {
    fn add(&mut self, difference: String) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(difference);
        } else {
            self.more += 1;
        }
    }

    fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.kept.push(format!("and {} more", self.more));
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_what_it_was_or_paid_by_the_run() {
        let ledger = Ledger {
            orders: 20,
            unpaid_from: 11,
            paid_from: 16,
            paid_to: 18,
            second: 0,
            mismatched: 2,
        };
        for (number, status, paid) in [
            (1, "PAID", true),
            (2, "DONE", true),
            (3, "CANCELLED", false),
            (4, "NOT_PAID", false),
            (11, "NOT_PAID", false),
            (15, "NOT_PAID", false),
            (16, "PAID", true),
            (18, "PAID", true),
            (19, "NOT_PAID", false),
        ] {
            let row = ledger.expected(number);
            assert_eq!(
                (row.status.as_str(), row.transaction_id.is_some()),
                (status, paid),
                "{number}"
            );
        }
        let verdicts: Vec<(String, u64)> = ledger.verdicts().into_iter().collect();
        // 1, 2, 5, 6, 9, 10 and the three of the run.
        assert_eq!(
            verdicts,
            [("AMOUNT_MISMATCH".to_owned(), 2), ("APPLIED".to_owned(), 9)]
        );
    }

    #[test]
    fn transactions_are_as_many_as_orders() {
        let ids: std::collections::HashSet<String> = (1..=20_000).map(transaction_id).collect();
        assert_eq!(ids.len(), 20_000);
        assert_eq!(transaction_id(1), "tx-1103515245");
    }
}
