//! Another look at rows that couldn't be read, each by its key.

use crate::conn::Conn;
use crate::dead_letters::DeadLetter;
use crate::error::Error;
use crate::orders::Order;
use crate::outbox::UNNAMED;
use crate::payment_exception::PaymentException;
use crate::payments::Payment;
use crate::reconcile::{Check, Found, Run};
use crate::rows::Checked;
use crate::run::{fetch_all, json};
use crate::sql::{self, Sql};
use crate::store::Store;
use crate::transitions::HistoryItem;
use crate::unreadable::{Reread, RowName};

/// Rows looked at in one go.
const LOOKS_MAX: usize = 50;

/// In the name of a row whose key can't be read: no row is found by it.
const DAMAGED: [char; 2] = ['?', char::REPLACEMENT_CHARACTER];

/// Lines of a history that are looked at for one of them.
const LINES_MAX: i64 = 1000;

impl Store {
    /// Remembers rows that couldn't be read; counted by [`Self::unreadable_rows`] until they are
    /// readable again. Code that reads rows one by one passes their errors here.
    pub fn note_unreadable<'a>(&self, errors: impl IntoIterator<Item = &'a Error>) {
        for error in errors {
            self.unreadable.note(error);
        }
    }

    /// Hands out what was read, and remembers what couldn't be.
    pub(crate) fn noting<T>(&self, (read, unreadable): (T, Vec<Error>)) -> T {
        self.note_unreadable(&unreadable);
        read
    }

    /// The one row that was asked for by its key, if it is there; remembered if it can't be read.
    pub(crate) fn only<T>(&self, rows: Vec<Checked<T>>) -> Result<Option<T>, Error> {
        self.unreadable.only(rows)
    }

    /// How many rows readers of this process met that can't be read, of at most 1,000 that it
    /// remembers.
    pub fn unreadable_rows(&self) -> u64 {
        self.unreadable.count() as u64
    }

    /// Looks again at some of the rows that couldn't be read, and forgets those that can be read
    /// now. Called now and then, it gets round to all of them.
    pub async fn recheck_unreadable(&self) -> Result<(), Error> {
        let mut reread_all = Ok(());
        for name in self.unreadable.oldest(LOOKS_MAX) {
            // Its turn is over, however the look ends: one that fails or takes too long must not keep the others from theirs.
            self.unreadable.rereading(&name);
            let found = self.read(
                "looking again at a row that couldn't be read",
                name.clone(),
                reread,
            );
            match found.await {
                Ok(found) => self.unreadable.reread(&name, found),
                Err(error) => reread_all = Err(error),
            }
        }
        reread_all
    }
}

async fn reread(conn: &mut Conn, name: &RowName) -> sqlx::Result<Reread> {
    let id = name.id.as_str();
    match name.table {
        "orders" => one::<Order>(conn, sql::orders::GET, id).await,
        "payments" => payment(conn, id).await,
        "transitions" | "refusals" => line(conn, name).await,
        "payment_exceptions" => one::<PaymentException>(conn, sql::exceptions::GET, id).await,
        "dead_letters" => one::<DeadLetter>(conn, sql::dead_letters::GET, id).await,
        "runs" => one::<Run>(conn, sql::runs::GET, id).await,
        "run_findings" => finding(conn, name).await,
        "checks" => one::<Check>(conn, sql::checks::GET, id).await,
        "outbox" => event(conn, id).await,
        _ => Ok(Reread::Lost),
    }
}

async fn one<T>(conn: &mut Conn, statement: Sql, id: &str) -> sqlx::Result<Reread>
where
    Checked<T>: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>
        + for<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow>
        + Send
        + Unpin,
{
    let rows = fetch_all!(conn, Checked<T>, statement, id)?;
    Ok(worst(&rows, |_| true, id))
}

/// An event, named by its order and version: if the relay can't read it, it is set aside as such.
async fn event(conn: &mut Conn, id: &str) -> sqlx::Result<Reread> {
    let (from, until, version) = match id.rsplit_once('/') {
        Some((order_id, version)) => (order_id, order_id.to_owned(), version.parse().ok()),
        // All names that begin so: there is no other way to tell them apart.
        None => (UNNAMED, format!("{UNNAMED}~"), Some(0)),
    };
    let Some(version): Option<i64> = version else {
        return Ok(Reread::Lost);
    };
    let statement = sql::outbox_set_aside::UNREADABLE;
    let rows = fetch_all!(
        conn,
        (i64,),
        statement,
        from,
        until.as_str(),
        version,
        version
    )?;
    Ok(if rows.is_empty() {
        Reread::Gone
    } else {
        Reread::Unreadable
    })
}

async fn payment(conn: &mut Conn, id: &str) -> sqlx::Result<Reread> {
    let parts: Vec<&str> = id.split('/').collect();
    let [provider, transaction_id, kind] = parts[..] else {
        return Ok(Reread::Lost);
    };
    let statement = sql::payments::GET;
    let rows = fetch_all!(
        conn,
        Checked<Payment>,
        statement,
        provider,
        transaction_id,
        kind
    )?;
    Ok(worst(&rows, |_| true, id))
}

/// A line of a history, named by order and version.
async fn line(conn: &mut Conn, name: &RowName) -> sqlx::Result<Reread> {
    let version = |(order_id, version): (_, &str)| Some((order_id, version.parse::<i64>().ok()?));
    let Some((order_id, version)) = name.id.rsplit_once('/').and_then(version) else {
        return Ok(Reread::Lost);
    };
    let (before, nothing) = (-1_i64, "");
    let rows = fetch_all!(
        conn,
        Checked<HistoryItem>,
        sql::transitions::HISTORY,
        order_id,
        version,
        before,
        crate::ts::Bound::START,
        nothing,
        nothing,
        nothing,
        nothing,
        LINES_MAX,
        0_i64,
    )?;
    Ok(worst(&rows, |found| found == name, &name.id))
}

async fn finding(conn: &mut Conn, name: &RowName) -> sqlx::Result<Reread> {
    let Some((run_id, _)) = name.id.rsplit_once('/') else {
        return Ok(Reread::Lost);
    };
    let ids = json([run_id]);
    let statement = sql::runs::FINDINGS;
    let rows = fetch_all!(conn, Checked<Found>, statement, ids.as_str())?;
    Ok(worst(&rows, |found| found == name, &name.id))
}

/// What rows say, of which those that can't be read count if they are meant.
fn worst<T>(rows: &[Checked<T>], is_meant: impl Fn(&RowName) -> bool, id: &str) -> Reread {
    let errors = rows.iter().filter_map(|row| row.0.as_ref().err());
    if errors.filter_map(RowName::of).any(|name| is_meant(&name)) {
        Reread::Unreadable
    } else if !rows.is_empty() {
        Reread::Readable
    } else if id.contains(DAMAGED) {
        Reread::Lost
    } else {
        Reread::Gone
    }
}
