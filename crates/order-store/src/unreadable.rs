//! The rows that readers met and couldn't read.
//!
//! Each is logged once and counted once, until it can be read again: `recheck` looks at the
//! remembered ones by their keys, so that nothing is ever scanned for a count.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::rows::Checked;

/// How many rows are remembered; more are reported to their callers, and not counted.
const REMEMBERED_MAX: usize = 1000;

/// How long a row is remembered that can't be looked for, because its key is damaged.
const LOST_FOR: Duration = Duration::from_mins(10);

/// Remembers unreadable rows.
#[derive(Debug, Default)]
pub(crate) struct UnreadableRows(Mutex<HashMap<RowName, Remembered>>);

/// Names a row: its table and its key as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RowName {
    pub(crate) table: &'static str,
    pub(crate) id: String,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    met: Instant,
    checked: Instant,
}

/// What reading a remembered row again shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reread {
    /// It can be read.
    Readable,
    /// It can't.
    Unreadable,
    /// There is no such row: it was deleted, or never committed.
    Gone,
    /// It can't be looked for: its key is damaged.
    Lost,
}

impl UnreadableRows {
    /// Remembers the row of an [`Error::Inconsistent`]; ignores other errors.
    pub(crate) fn note(&self, error: &Error) {
        let Some(name) = RowName::of(error) else {
            return;
        };
        let now = Instant::now();
        let mut rows = self.rows();
        if let Some(known) = rows.get_mut(&name) {
            known.met = now;
            return;
        }
        if rows.len() >= REMEMBERED_MAX {
            return;
        }
        rows.insert(
            name,
            Remembered {
                met: now,
                checked: now,
            },
        );
        drop(rows);
        if let Error::Inconsistent {
            table,
            column,
            id,
            source,
        } = error
        {
            tracing::error!(
                row.table = table, row.column = column, row.id = id, error = %source,
                "row left out because it can't be read; everything else goes on. `orderd audit` lists all such rows"
            );
        }
    }

    /// The one row that was asked for by its key, if it is there; remembered if it can't be read.
    pub(crate) fn only<T>(&self, rows: Vec<Checked<T>>) -> Result<Option<T>, Error> {
        let Some(Checked(row)) = rows.into_iter().next() else {
            return Ok(None);
        };
        row.map(Some).inspect_err(|error| self.note(error))
    }

    /// The remembered rows that were not looked at for the longest time.
    pub(crate) fn oldest(&self, count: usize) -> Vec<RowName> {
        let rows = self.rows();
        let mut names: Vec<(&RowName, Instant)> =
            rows.iter().map(|(name, row)| (name, row.checked)).collect();
        names.sort_unstable_by_key(|(_, checked)| *checked);
        let oldest = names.into_iter().take(count);
        oldest.map(|(name, _)| name.clone()).collect()
    }

    /// Another look at a row begins.
    pub(crate) fn rereading(&self, name: &RowName) {
        if let Some(known) = self.rows().get_mut(name) {
            known.checked = Instant::now();
        }
    }

    /// Keeps or forgets a row after another look at it.
    pub(crate) fn reread(&self, name: &RowName, found: Reread) {
        let now = Instant::now();
        let mut rows = self.rows();
        let Some(known) = rows.get_mut(name) else {
            return;
        };
        let forget = match found {
            Reread::Readable | Reread::Gone => true,
            Reread::Unreadable => false,
            Reread::Lost => now.duration_since(known.met) > LOST_FOR,
        };
        if forget {
            rows.remove(name);
            drop(rows);
            tracing::info!(
                row.table = name.table,
                row.id = name.id,
                "row can be read again"
            );
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.rows().len()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<RowName, Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowName {
    /// The row that an inconsistency is about.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Inconsistent { table, id, .. } => Some(Self {
                table,
                id: id.clone(),
            }),
            _ => None,
        }
    }
}
