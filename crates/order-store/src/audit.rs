//! The invariants, checked in one consistent snapshot.

use std::fmt;

use order_fsm::{Decision, OrderEvent, OrderStatus, Verdict, decide};
use time::Duration;

use crate::conn::{Sql, Tx, fetch_all};
use crate::error::{Error, doing};
use crate::sql::audit as sql;
use crate::store::Store;
use crate::ts::Ts;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Version = number of transitions = the highest one; the first is the creation, each step is
    /// legal, the last one is the status.
    A1,
    /// `PAID`, `SHIPPED`, `DONE` ⇔ exactly one applied success, equal to `paid_by`.
    A2,
    /// No applied payment without such an order.
    A3,
    /// Every payment whose verdict demands an exception has it.
    A4,
    /// No payment waits longer than a minute for an order that exists, unless a person closed it.
    A5,
    /// No status or verdict that isn't one.
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
        self.snapshot(|tx| Box::pin(audit(tx))).await
    }
}

async fn audit(tx: &mut Tx) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let fixed = [
        (Invariant::A1, sql::A1_COUNT),
        (Invariant::A1, sql::A1_ORPHAN),
        (Invariant::A1, sql::A1_CHAIN),
        (Invariant::A1, sql::A1_LAST),
        (Invariant::A2, sql::A2),
        (Invariant::A2, sql::A2_STEP),
        (Invariant::A3, sql::A3),
        (Invariant::A4, sql::A4),
    ];
    for (invariant, statement) in fixed {
        let rows = fetch_all!(tx.conn(), (String, String), statement);
        collect(&mut findings, invariant, rows)?;
    }
    illegal_steps(tx, &mut findings).await?;

    let received_before = Ts(tx.now().0 - Duration::MINUTE);
    let rows = fetch_all!(tx.conn(), (String, String), sql::A5, received_before);
    collect(&mut findings, Invariant::A5, rows)?;

    let known = |text: &str| text.parse::<OrderStatus>().is_ok();
    unknown_names(tx, &mut findings, sql::STATUSES, sql::IN_STATUS, known).await?;
    let known = |text: &str| text.parse::<Verdict>().is_ok_and(Verdict::is_recorded);
    unknown_names(tx, &mut findings, sql::VERDICTS, sql::WITH_VERDICT, known).await?;

    let known = |text: &str| text.parse().is_ok_and(Verdict::can_be_exception);
    let (groups, members) = (sql::EXCEPTION_VERDICTS, sql::EXCEPTION_WITH_VERDICT);
    unknown_names(tx, &mut findings, groups, members, known).await?;

    findings.sort_by(|a, b| (a.invariant, &a.id).cmp(&(b.invariant, &b.id)));
    Ok(findings)
}

/// The database groups the steps that were taken, the state machine says which are legal.
async fn illegal_steps(tx: &mut Tx, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let steps = fetch_all!(tx.conn(), (i64, String, String, String), sql::STEPS)
        .map_err(doing("auditing"))?;
    for (first, from, event, to) in steps {
        if !is_legal(first == 1, &from, &event, &to) {
            let rows = fetch_all!(
                tx.conn(),
                (String, String),
                sql::STEP_TAKEN,
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

async fn unknown_names(
    tx: &mut Tx,
    findings: &mut Vec<Finding>,
    groups: Sql,
    members: Sql,
    known: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let names = fetch_all!(tx.conn(), (String, i64), groups).map_err(doing("auditing"))?;
    for (name, _) in names {
        if !known(&name) {
            let rows = fetch_all!(tx.conn(), (String, String), members, name.as_str());
            collect(findings, Invariant::A6, rows)?;
        }
    }
    Ok(())
}

fn collect(
    findings: &mut Vec<Finding>,
    invariant: Invariant,
    rows: Result<Vec<(String, String)>, sqlx::Error>,
) -> Result<(), Error> {
    let rows = rows.map_err(doing("auditing"))?;
    findings.extend(rows.into_iter().map(|(id, detail)| Finding {
        invariant,
        id,
        detail,
    }));
    Ok(())
}
