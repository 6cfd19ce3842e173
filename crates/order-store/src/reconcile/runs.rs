//! Runs of the reconciliation, as rows: one at a time by a lease, kept with what they found.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use order_fsm::OrderId;
use time::OffsetDateTime;
use time::macros::datetime;

use super::FindingKind;
use crate::conn::{Conn, Tx, execute, fetch_all};
use crate::error::{Error, doing};
use crate::leases::{self, Lease};
use crate::orders::{Row, json_array};
use crate::sql::{outbox, reconcile as sql};
use crate::store::Store;
use crate::ts::Ts;

/// The lease of the one run.
const LEASE: &str = "reconcile";

/// Who wanted a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartedBy {
    /// The service's own clock.
    Schedule,
    /// A caller of the API.
    Api,
    /// A person or a cron job.
    Cli,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It is at work, or its process is gone and no other run has noticed yet.
    Running,
    /// It came to its end.
    Done,
    /// It didn't.
    Failed,
}

/// A word of a run that isn't known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown word of a run: {0:?}")]
pub struct UnknownRunWord(pub(crate) String);

macro_rules! words {
    ($name:ident { $($variant:ident $word:literal)* }) => {
        impl $name {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The string on every wire and in every table.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownRunWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let known = Self::ALL.iter().copied().find(|known| known.as_str() == text);
                known.ok_or_else(|| UnknownRunWord(text.to_owned()))
            }
        }
    };
}

words!(StartedBy { Schedule "schedule" Api "api" Cli "cli" });
words!(RunState { Running "running" Done "done" Failed "failed" });

/// What a run did, in orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Asked about.
    pub asked: u64,
    /// Paid by a payment that only the payment service told us of.
    pub healed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Answered, and asked about again later.
    pub pending: u64,
    /// Not answered, and asked about again later.
    pub unknown: u64,
    /// Moved by somebody else meanwhile.
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
    /// Who wanted it.
    pub started_by: StartedBy,
    /// When it began.
    pub started_at: OffsetDateTime,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
    /// What it did so far.
    pub counts: RunCounts,
    /// What it found: the first ones, if there are very many.
    pub findings: Vec<RunFinding>,
}

/// What came of asking for a run.
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

impl Run {
    /// The place of this run.
    pub fn cursor(&self) -> RunCursor {
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
        self.write("starting-a-run", move |tx| {
            let id = id.clone();
            Box::pin(async move {
                let now = tx.now();
                if !leases::take(tx, &lease(&id, ttl)).await? {
                    // A new statement: it sees what the holder committed.
                    let running = fetch_all!(tx.conn(), (String,), sql::RUN_RUNNING)
                        .map_err(doing("looking for the running run"))?;
                    let (id,) = running
                        .into_iter()
                        .next()
                        .ok_or(Error::Raced("looking for the running run"))?;
                    return Ok(RunStart::AlreadyRunning { id });
                }
                execute!(tx.conn(), sql::RUNS_FAIL, now)
                    .map_err(doing("ending a run whose process is gone"))?;
                let (by, dry) = (started_by.as_str(), dry_run);
                execute!(tx.conn(), sql::RUN_INSERT, id.as_str(), dry, by, now)
                    .map_err(doing("beginning a run"))?;
                Ok(RunStart::Started(Run {
                    id,
                    state: RunState::Running,
                    dry_run,
                    started_by,
                    started_at: now.0,
                    finished_at: None,
                    counts: RunCounts::default(),
                    findings: Vec::new(),
                }))
            })
        })
        .await
    }

    /// Writes how far a run is and renews its lease; `false` if another run has taken over.
    pub async fn progress_run(
        &self,
        id: String,
        counts: RunCounts,
        ttl: Duration,
    ) -> Result<bool, Error> {
        self.write("progressing", move |tx| {
            let id = id.clone();
            Box::pin(async move {
                if !leases::renew(tx, &lease(&id, ttl)).await? {
                    return Ok(false);
                }
                write_counts(tx, &id, counts).await?;
                Ok(true)
            })
        })
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
        self.write("ending-a-run", move |tx| {
            let (id, findings) = (id.clone(), findings.clone());
            Box::pin(async move {
                let now = tx.now();
                write_counts(tx, &id, counts).await?;
                let ended = execute!(tx.conn(), sql::RUN_END, id.as_str(), state.as_str(), now)
                    .map_err(doing("ending a run"))?;
                if ended == 1 {
                    write_findings(tx, &id, &findings).await?;
                }
                execute!(tx.conn(), outbox::LEASE_RELEASE, LEASE, id.as_str())
                    .map_err(doing("releasing a lease"))?;
                Ok(ended == 1)
            })
        })
        .await
    }

    /// A run with what it found.
    pub async fn get_run(&self, id: String) -> Result<Option<Run>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let rows = fetch_all!(conn, RunRow, sql::RUN_GET, id.as_str())
                    .map_err(doing("reading a run"))?;
                Ok(with_findings(conn, rows).await?.pop())
            })
        })
        .await
    }

    /// A page of runs, newest first.
    pub async fn list_runs(
        &self,
        before: Option<RunCursor>,
        limit: u32,
    ) -> Result<Vec<Run>, Error> {
        self.read(move |conn| {
            Box::pin(async move {
                let before = before.unwrap_or(RunCursor {
                    started_at: datetime!(9999-12-31 23:59:59 UTC),
                    id: String::new(),
                });
                let (at, id) = (Ts(before.started_at), before.id.as_str());
                let rows = fetch_all!(conn, RunRow, sql::RUNS_LIST, at, id, i64::from(limit))
                    .map_err(doing("listing runs"))?;
                with_findings(conn, rows).await
            })
        })
        .await
    }
}

async fn write_counts(tx: &mut Tx, id: &str, counts: RunCounts) -> Result<(), Error> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    execute!(
        tx.conn(),
        sql::RUN_PROGRESS,
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
    let rows: Vec<serde_json::Value> = findings
        .iter()
        .enumerate()
        .map(|(position, finding)| {
            serde_json::json!([
                position,
                finding.order_id.as_str(),
                finding.kind.as_str(),
                finding.detail,
            ])
        })
        .collect();
    let rows = serde_json::Value::from(rows).to_string();
    execute!(tx.conn(), sql::FINDINGS_INSERT, id, rows.as_str())
        .map(drop)
        .map_err(doing("writing findings"))
}

async fn with_findings(conn: &mut Conn, rows: Vec<RunRow>) -> Result<Vec<Run>, Error> {
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let ids = json_array(&ids);
    let found = fetch_all!(
        conn,
        (String, String, String, String),
        sql::FINDINGS_OF,
        ids.as_str()
    )
    .map_err(doing("reading findings"))?;
    let mut runs = rows
        .into_iter()
        .map(Run::try_from)
        .collect::<Result<Vec<_>, _>>()?;
    for (run_id, order_id, kind, detail) in found {
        let at = Row {
            table: "run_findings",
            id: &run_id,
        };
        let finding = RunFinding {
            order_id: at.column("order_id", order_id.parse())?,
            kind: at.column("kind", kind.parse())?,
            detail,
        };
        if let Some(run) = runs.iter_mut().find(|run| run.id == run_id) {
            run.findings.push(finding);
        }
    }
    Ok(runs)
}

#[derive(sqlx::FromRow)]
struct RunRow {
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

impl TryFrom<RunRow> for Run {
    type Error = Error;

    fn try_from(row: RunRow) -> Result<Self, Error> {
        let at = Row {
            table: "runs",
            id: &row.id,
        };
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(Self {
            state: at.column("state", row.state.parse())?,
            dry_run: row.dry_run,
            started_by: at.column("started_by", row.started_by.parse())?,
            started_at: row.started_at.0,
            finished_at: row.finished_at.map(|at| at.0),
            counts: RunCounts {
                asked: count(row.asked),
                healed: count(row.healed),
                cancelled: count(row.cancelled),
                pending: count(row.pending),
                unknown: count(row.unknown),
                raced: count(row.raced),
                settled: count(row.settled),
            },
            findings: Vec::new(),
            id: row.id,
        })
    }
}
