//! The invariants, checked in one consistent snapshot.

use std::fmt;

use order_fsm::{Decision, OrderEvent, OrderStatus, decide};
use time::Duration;

use crate::error::{Error, doing};
use crate::every_row;
use crate::run::fetch_all;
use crate::sql;
use crate::store::Store;
use crate::text::Lossy;
use crate::tx::Tx;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Version = number of transitions = the highest one; the first is the creation, each step is
    /// legal, the last one is the status.
    A1,
    /// `PAID`, `SHIPPED`, `DONE` ⇔ exactly one applied success, equal to `paid_by`.
    A2,
    /// Every applied payment has such an order.
    A3,
    /// Every payment whose verdict demands an exception has it.
    A4,
    /// No payment waits longer than a minute for an order that exists, unless a person closed it.
    A5,
    /// No status or verdict that isn't one, and no other value that can't be read.
    A6,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Something that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub invariant: Invariant,
    /// The order, or the payment as `provider/transaction/kind`.
    pub id: String,
    /// What is there.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.invariant, self.id, self.detail)
    }
}

impl Store {
    /// Checks every invariant over everything.
    pub async fn audit(&self) -> Result<Vec<Finding>, Error> {
        self.snapshot("auditing", (), audit).await
    }
}

pub(crate) async fn audit(tx: &mut Tx, (): &()) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let fixed = [
        (Invariant::A1, sql::audit::A1_COUNT),
        (Invariant::A1, sql::audit::A1_ORPHAN),
        (Invariant::A1, sql::audit::A1_CHAIN),
        (Invariant::A1, sql::audit::A1_LAST),
        (Invariant::A2, sql::audit::A2),
        (Invariant::A2, sql::audit::A2_STEP),
        (Invariant::A3, sql::audit::A3),
        (Invariant::A4, sql::audit::A4),
    ];
    for (invariant, statement) in fixed {
        let rows = fetch_all!(tx.conn(), Row, statement);
        collect(&mut findings, invariant, rows)?;
    }
    illegal_steps(tx, &mut findings).await?;

    let received_before = tx.now().minus(Duration::MINUTE);
    let rows = fetch_all!(tx.conn(), Row, sql::audit::A5, received_before);
    collect(&mut findings, Invariant::A5, rows)?;

    let unreadable = every_row::unreadable(tx).await?;
    findings.extend(unreadable.iter().filter_map(finding));

    findings.sort_by(|a, b| (a.invariant, &a.id).cmp(&(b.invariant, &b.id)));
    Ok(findings)
}

/// An id and a detail, as the database puts them together: of damaged rows, too.
type Row = (Option<Lossy>, Option<Lossy>);

/// The database groups the steps that were taken, the state machine says which are legal.
async fn illegal_steps(tx: &mut Tx, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let steps = fetch_all!(tx.conn(), (i64, Lossy, Lossy, Lossy), sql::audit::STEPS)
        .map_err(doing("auditing"))?;
    for (first, Lossy(from), Lossy(event), Lossy(to)) in steps {
        if !is_legal(first == 1, &from, &event, &to) {
            let rows = fetch_all!(
                tx.conn(),
                Row,
                sql::audit::STEP_TAKEN,
                first,
                from.as_str(),
                event.as_str(),
                to.as_str()
            );
            collect(findings, Invariant::A1, rows)?;
        }
    }
    Ok(())
}

fn is_legal(first: bool, from: &str, event: &str, to: &str) -> bool {
    if first {
        return from.is_empty() && event == "create" && to == OrderStatus::NotPaid.as_str();
    }
    let Ok(from) = from.parse() else { return false };
    OrderEvent::ALL.into_iter().any(|known| {
        known.as_str() == event
            && matches!(decide(from, known), Decision::Advance(step) if step.to.as_str() == to)
    })
}

fn collect(
    findings: &mut Vec<Finding>,
    invariant: Invariant,
    rows: Result<Vec<Row>, sqlx::Error>,
) -> Result<(), Error> {
    let rows = rows.map_err(doing("auditing"))?;
    let text = |text: Option<Lossy>| text.map_or_else(|| "?".to_owned(), |text| text.0);
    findings.extend(rows.into_iter().map(|(id, detail)| Finding {
        invariant,
        id: text(id),
        detail: text(detail),
    }));
    Ok(())
}

fn finding(error: &Error) -> Option<Finding> {
    let Error::Inconsistent {
        table,
        column,
        id,
        source,
    } = error
    else {
        return None;
    };
    Some(Finding {
        invariant: Invariant::A6,
        id: id.clone(),
        detail: format!("{table}.{column} can't be read: {}", causes(&**source)),
    })
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    text
}
