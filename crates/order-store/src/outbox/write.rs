//! The last step of a transaction: its unpublished events become rows of the outbox.

use crate::error::{Error, doing};
use crate::run::execute;
use crate::sql;
use crate::ts::Ts;
use crate::tx::Tx;

/// The most events in one row.
const EVENTS_MAX: i64 = 1000;

/// The most bytes in one row, beyond its first event.
const BYTES_MAX: usize = 256 * 1024;

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewRow {
    pub(super) at: Ts,
    pub(super) events: i64,
    pub(super) content: String,
}

/// Writes the transaction's unpublished events down. Nothing is locked after this: a transaction that locks one of its
/// orders later has waited for it, and gets a later place.
pub(crate) async fn write(tx: &mut Tx) -> Result<(), Error> {
    let events = std::mem::take(&mut tx.unpublished);
    for row in rows(events.into_lines()) {
        execute!(
            tx.conn(),
            sql::outbox::INSERT,
            row.at,
            row.events,
            row.content.as_str()
        )
        .map_err(doing("writing to the outbox"))?;
    }
    Ok(())
}

/// Lines in rows of bounded size, in their order.
pub(super) fn rows(lines: Vec<(Ts, String)>) -> Vec<NewRow> {
    let mut rows: Vec<NewRow> = Vec::new();
    for (at, line) in lines {
        match rows.last_mut() {
            Some(row) if row.events < EVENTS_MAX && row.content.len() + line.len() < BYTES_MAX => {
                row.at = row.at.min(at);
                row.events += 1;
                row.content.push('\n');
                row.content.push_str(&line);
            }
            _ => rows.push(NewRow {
                at,
                events: 1,
                content: line,
            }),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn lines(count: usize, length: usize) -> Vec<(Ts, String)> {
        let line = "x".repeat(length);
        vec![(Ts(OffsetDateTime::UNIX_EPOCH), line); count]
    }

    #[test]
    fn rows_are_bounded_in_events_and_in_bytes() {
        let sizes = |count, length| -> Vec<i64> {
            let rows = rows(lines(count, length));
            for row in &rows {
                assert_eq!(row.content.lines().map(|_| 1).sum::<i64>(), row.events);
                assert!(row.content.len() <= BYTES_MAX || row.events == 1);
            }
            rows.iter().map(|row| row.events).collect()
        };
        assert_eq!(sizes(0, 1), [0_i64; 0]);
        assert_eq!(sizes(2500, 100), [1000, 1000, 500]);
        assert_eq!(sizes(5, 100_000), [2, 2, 1]);
        assert_eq!(sizes(2, 2 * BYTES_MAX), [1, 1]);
    }
}
