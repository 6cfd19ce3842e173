//! Runs of the reconciliation, as rows: one at a time by a lease, kept with what they found.

use std::time::Duration;

use order_fsm::OrderId;
use time::OffsetDateTime;

use super::FindingKind;
use crate::conn::Conn;
use crate::error::{Error, doing};
use crate::leases::{self, Lease};
use crate::page::{self, Listed, Page, Place};
use crate::rows::{Checked, Row, Stored, from_row, sort_out};
use crate::run::{execute, fetch_all, json, json_rows};
use crate::sql;
use crate::store::Store;
use crate::ts::{Bound, Ts};
use crate::tx::Tx;
use crate::words::words;

/// Sorts after every id: all of them are ASCII.
const BEHIND_EVERY_ID: &str = "\u{10ffff}";

/// The lease of the one run.
const LEASE: &str = "reconcile";

words! {
    /// What started a run.
    pub enum StartedBy, "schedule, api or cli" {
        /// The service's own clock.
        Schedule = "schedule",
        /// A caller of the API.
        Api = "api",
        /// A person or a scheduler, on the command line.
        Cli = "cli",
    }
}

words! {
    /// How far a run is.
    pub enum RunState, "running, done or failed" {
        /// It is at work, or its process is gone and no other run has noticed yet.
        Running = "running",
        /// It came to its end.
        Done = "done",
        /// It failed, or its process died.
        Failed = "failed",
    }
}

/// What a run did, in orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Asked about.
    pub asked: u64,
    /// Paid by a payment that only the payment service reported.
    pub healed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Answered, and asked about again later.
    pub pending: u64,
    /// Not answered, and asked about again later.
    pub unknown: u64,
    /// Moved by another writer meanwhile.
    pub raced: u64,
    /// Payments whose order had appeared.
    pub settled: u64,
}

/// Something a run reports to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFinding {
    /// About which order.
    pub order_id: OrderId,
    /// What.
    pub kind: FindingKind,
    /// In words.
    pub detail: String,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// How far it is.
    pub state: RunState,
    /// Whether everything is rolled back.
    pub dry_run: bool,
    /// What started it.
    pub started_by: StartedBy,
    /// When it began.
    pub started_at: OffsetDateTime,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
    /// What it did so far.
    pub counts: RunCounts,
    /// What it found: the first ones, if there are very many.
    pub findings: Vec<RunFinding>,
    /// Findings that can't be read: they are left out.
    pub unreadable: u64,
}

/// The outcome of starting a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStart {
    /// It has begun.
    Started(Run),
    /// Another one is at work.
    AlreadyRunning {
        /// Its id.
        id: String,
    },
}

/// Where a page of runs ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCursor {
    /// The run's start.
    pub started_at: OffsetDateTime,
    /// Its id.
    pub id: String,
}

/// A page of runs.
pub type RunPage = Page<Run, RunCursor>;

impl Listed for Run {
    type Cursor = RunCursor;

    fn cursor(&self) -> RunCursor {
        RunCursor {
            started_at: self.started_at,
            id: self.id.clone(),
        }
    }
}

fn lease(id: &str, ttl: Duration) -> Lease {
    Lease {
        name: LEASE,
        holder: id.to_owned(),
        ttl,
    }
}

impl Store {
    /// Begins a run under this id, unless another one is at work. A run whose lease ran out is
    /// marked failed.
    pub async fn start_run(
        &self,
        id: String,
        started_by: StartedBy,
        dry_run: bool,
        ttl: Duration,
    ) -> Result<RunStart, Error> {
        let args = (lease(&id, ttl), started_by, dry_run);
        self.write("starting-a-run", args, start).await
    }

    /// Writes how far a run is and renews its lease; `false` if another run has taken over.
    pub async fn progress_run(
        &self,
        id: String,
        counts: RunCounts,
        ttl: Duration,
    ) -> Result<bool, Error> {
        self.write("progressing", (lease(&id, ttl), counts), progress)
            .await
    }

    /// Ends a run with what it did and found, and gives its lease back. `false` if another run had
    /// taken over: then this one stays failed.
    pub async fn end_run(
        &self,
        id: String,
        state: RunState,
        counts: RunCounts,
        findings: Vec<RunFinding>,
    ) -> Result<bool, Error> {
        let args = (lease(&id, Duration::ZERO), state, counts, findings);
        self.write("ending-a-run", args, end).await
    }

    /// A run with what it found.
    pub async fn get_run(&self, id: String) -> Result<Option<Run>, Error> {
        let (run, findings) = self.read("reading a run", (id,), get).await?;
        self.note_unreadable(&findings);
        self.only(run.into_iter().collect())
    }

    /// A page of runs, newest first.
    pub async fn list_runs(&self, from: Place<RunCursor>, limit: u32) -> Result<RunPage, Error> {
        let read = self.read("listing runs", (from, limit), list);
        Ok(self.noting(read.await?))
    }
}

async fn start(
    tx: &mut Tx,
    (lease, started_by, dry_run): &(Lease, StartedBy, bool),
) -> Result<RunStart, Error> {
    let now = tx.now();
    if !leases::take(tx, lease).await? {
        // A new statement: it sees what the holder committed.
        let running = fetch_all!(tx.conn(), (String,), sql::runs::RUNNING)
            .map_err(doing("looking for the running run"))?;
        if let Some((id,)) = running.into_iter().next() {
            return Ok(RunStart::AlreadyRunning { id });
        }
        // It ended between the two statements, or its row is gone.
        leases::take_from_idle(tx, lease).await?;
    }
    execute!(tx.conn(), sql::runs::FAIL, now)
        .map_err(doing("ending a run whose process is gone"))?;
    let (id, by) = (lease.holder.as_str(), started_by.as_str());
    execute!(tx.conn(), sql::runs::INSERT, id, *dry_run, by, now)
        .map_err(doing("beginning a run"))?;
    Ok(RunStart::Started(Run {
        id: lease.holder.clone(),
        state: RunState::Running,
        dry_run: *dry_run,
        started_by: *started_by,
        started_at: now.0,
        finished_at: None,
        counts: RunCounts::default(),
        findings: Vec::new(),
        unreadable: 0,
    }))
}

async fn progress(tx: &mut Tx, (lease, counts): &(Lease, RunCounts)) -> Result<bool, Error> {
    if !leases::renew(tx, lease).await? {
        return Ok(false);
    }
    write_counts(tx, &lease.holder, *counts).await?;
    Ok(true)
}

async fn end(
    tx: &mut Tx,
    (lease, state, counts, findings): &(Lease, RunState, RunCounts, Vec<RunFinding>),
) -> Result<bool, Error> {
    let (id, now) = (lease.holder.as_str(), tx.now());
    write_counts(tx, id, *counts).await?;
    let ended = execute!(tx.conn(), sql::runs::END, id, state.as_str(), now)
        .map_err(doing("ending a run"))?;
    if ended == 1 {
        write_findings(tx, id, findings).await?;
    }
    leases::release(tx, lease).await?;
    Ok(ended == 1)
}

async fn get(
    conn: &mut Conn,
    (id,): &(String,),
) -> sqlx::Result<(Option<Checked<Run>>, Vec<Error>)> {
    let mut rows = fetch_all!(conn, Checked<Run>, sql::runs::GET, id)?;
    let Some(Checked(Ok(run))) = rows.pop_if(|row| row.0.is_ok()) else {
        return Ok((rows.pop(), Vec::new()));
    };
    let (mut runs, unreadable) = with_findings(conn, vec![run]).await?;
    Ok((runs.pop().map(|run| Checked(Ok(run))), unreadable))
}

async fn list(
    conn: &mut Conn,
    (from, limit): &(Place<RunCursor>, u32),
) -> sqlx::Result<(RunPage, Vec<Error>)> {
    let before = from.after.as_ref();
    let rows = fetch_all!(
        conn,
        Checked<Run>,
        sql::runs::LIST,
        before.map_or(Bound::END, |before| before.started_at.into()),
        before.map_or(BEHIND_EVERY_ID, |before| before.id.as_str()),
        page::fetch(*limit),
        i64::from(from.passed)
    )?;
    let (mut page, mut unreadable) = page::page(rows, from, *limit);
    let (runs, findings) = with_findings(conn, page.items).await?;
    page.items = runs;
    unreadable.extend(findings);
    Ok((page, unreadable))
}

async fn write_counts(tx: &mut Tx, id: &str, counts: RunCounts) -> Result<(), Error> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    execute!(
        tx.conn(),
        sql::runs::PROGRESS,
        id,
        count(counts.asked),
        count(counts.healed),
        count(counts.cancelled),
        count(counts.pending),
        count(counts.unknown),
        count(counts.raced),
        count(counts.settled),
    )
    .map(drop)
    .map_err(doing("counting a run"))
}

async fn write_findings(tx: &mut Tx, id: &str, findings: &[RunFinding]) -> Result<(), Error> {
    let rows: Vec<_> = findings.iter().enumerate().collect();
    let rows = json_rows!(rows, |row| [
        row.0,
        row.1.order_id.as_str(),
        row.1.kind.as_str(),
        row.1.detail,
    ]);
    execute!(tx.conn(), sql::runs::INSERT_FINDINGS, id, rows.as_str())
        .map(drop)
        .map_err(doing("writing findings"))
}

/// Adds what runs found; also returns what is wrong with findings that can't be read.
async fn with_findings(
    conn: &mut Conn,
    mut runs: Vec<Run>,
) -> sqlx::Result<(Vec<Run>, Vec<Error>)> {
    let ids = json(runs.iter().map(|run| run.id.as_str()));
    let found = fetch_all!(conn, Checked<Found>, sql::runs::FINDINGS, ids.as_str())?;
    let (found, unreadable) = sort_out(found);
    for Found { run_id, finding } in found {
        if let Some(run) = runs.iter_mut().find(|run| run.id == run_id) {
            run.findings.push(finding);
        }
    }
    for error in &unreadable {
        // Named by the run and the place.
        let Error::Inconsistent { id, .. } = error else {
            continue;
        };
        let of = |run: &&mut Run| id.split('/').next() == Some(run.id.as_str());
        if let Some(run) = runs.iter_mut().find(of) {
            run.unreadable += 1;
        }
    }
    Ok((runs, unreadable))
}

/// A finding, and the run it belongs to.
pub(crate) struct Found {
    run_id: String,
    finding: RunFinding,
}

from_row! {
    pub(crate) struct FindingRow {
        run_id: String,
        order_id: String,
        kind: String,
        detail: String,
    }
}

impl Stored for Found {
    type Row = FindingRow;
    const TABLE: &'static str = "run_findings";
    const KEY: &'static [&'static str] = &["run_id", "position"];
}

impl TryFrom<FindingRow> for Found {
    type Error = Error;

    fn try_from(row: FindingRow) -> Result<Self, Error> {
        let at = Row {
            table: Self::TABLE,
            id: &row.run_id,
        };
        Ok(Self {
            finding: RunFinding {
                order_id: at.column("order_id", row.order_id.parse())?,
                kind: at.column("kind", row.kind.parse())?,
                detail: row.detail,
            },
            run_id: row.run_id,
        })
    }
}

from_row! {
    pub(crate) struct RunRow {
        id: String,
        state: String,
        dry_run: bool,
        started_by: String,
        started_at: Ts,
        finished_at: Option<Ts>,
        asked: i64,
        healed: i64,
        cancelled: i64,
        pending: i64,
        unknown: i64,
        raced: i64,
        settled: i64,
    }
}

impl Stored for Run {
    type Row = RunRow;
    const TABLE: &'static str = "runs";
    const KEY: &'static [&'static str] = &["id"];
}

impl TryFrom<RunRow> for Run {
    type Error = Error;

    fn try_from(row: RunRow) -> Result<Self, Error> {
        let at = Row {
            table: "runs",
            id: &row.id,
        };
        let count = |column, count: i64| at.column(column, u64::try_from(count));
        Ok(Self {
            state: at.column("state", row.state.parse())?,
            dry_run: row.dry_run,
            started_by: at.column("started_by", row.started_by.parse())?,
            started_at: row.started_at.0,
            finished_at: row.finished_at.map(|at| at.0),
            counts: RunCounts {
                asked: count("asked", row.asked)?,
                healed: count("healed", row.healed)?,
                cancelled: count("cancelled", row.cancelled)?,
                pending: count("pending", row.pending)?,
                unknown: count("unknown", row.unknown)?,
                raced: count("raced", row.raced)?,
                settled: count("settled", row.settled)?,
            },
            findings: Vec::new(),
            unreadable: 0,
            id: row.id,
        })
    }
}
