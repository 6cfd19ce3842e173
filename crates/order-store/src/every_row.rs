//! The audit's look at every row: whatever readers can't read is found here, by reading it the same way.
//!
//! Rows are streamed, so that memory doesn't grow with the tables.

use futures_util::TryStreamExt as _;
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use crate::conn::Conn;
use crate::dead_letters::DeadLetter;
use crate::error::{Error, doing};
use crate::orders::Order;
use crate::outbox;
use crate::payment_exception::PaymentException;
use crate::payments::Payment;
use crate::reconcile::{Check, Found, Run};
use crate::rows::{Checked, Stored, from_row};
use crate::sql::{self, Sql};
use crate::transitions::HistoryItem;
use crate::ts::Ts;
use crate::tx::Tx;

/// What is wrong with every row that can't be read.
pub(crate) async fn unreadable(tx: &mut Tx) -> Result<Vec<Error>, Error> {
    let mut unreadable = Vec::new();
    let found = &mut unreadable;
    read::<Order>(tx, sql::audit::EVERY_ORDER, found).await?;
    read::<Payment>(tx, sql::audit::EVERY_PAYMENT, found).await?;
    read::<HistoryItem>(tx, sql::audit::EVERY_TRANSITION, found).await?;
    read::<HistoryItem>(tx, sql::audit::EVERY_REFUSAL, found).await?;
    read::<PaymentException>(tx, sql::audit::EVERY_EXCEPTION, found).await?;
    read::<DeadLetter>(tx, sql::audit::EVERY_DEAD_LETTER, found).await?;
    read::<Check>(tx, sql::audit::EVERY_CHECK, found).await?;
    read::<Asked>(tx, sql::audit::EVERY_CHECK, found).await?;
    read::<Run>(tx, sql::audit::EVERY_RUN, found).await?;
    read::<Found>(tx, sql::audit::EVERY_FINDING, found).await?;
    read::<OutboxRow>(tx, sql::audit::EVERY_OUTBOX_ROW, found).await?;
    read::<AsideRow>(tx, sql::audit::EVERY_SET_ASIDE, found).await?;
    read::<Lease>(tx, sql::audit::EVERY_LEASE, found).await?;
    read::<Pace>(tx, sql::audit::EVERY_PACE, found).await?;
    Ok(unreadable)
}

async fn read<T>(tx: &mut Tx, statement: Sql, found: &mut Vec<Error>) -> Result<(), Error>
where
    T: Send,
    Checked<T>: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
{
    let mut keep = |Checked(row): Checked<T>| {
        found.extend(row.err());
        std::future::ready(Ok(()))
    };
    match tx.conn() {
        Conn::Postgres(c) => {
            sqlx::query_as::<_, Checked<T>>(statement.postgres)
                .fetch(&mut **c)
                .try_for_each(&mut keep)
                .await
        }
        Conn::Sqlite(c) => {
            sqlx::query_as::<_, Checked<T>>(statement.sqlite)
                .fetch(&mut **c)
                .try_for_each(&mut keep)
                .await
        }
    }
    .map_err(doing("auditing"))
}

/// Rows that are read in parts elsewhere: here nothing but whether they can be.
macro_rules! readable {
    ($name:ident, $row:ident, $table:literal, $key:literal, { $($field:ident: $type:ty,)* }) => {
        struct $name;

        from_row! {
            #[expect(dead_code, reason = "only there to be read")]
            struct $row {
                $($field: $type,)*
            }
        }

        impl Stored for $name {
            type Row = $row;
            const TABLE: &'static str = $table;
            const KEY: &'static [&'static str] = &[$key];
        }

        impl TryFrom<$row> for $name {
            type Error = Error;

            fn try_from(_: $row) -> Result<Self, Error> {
                Ok(Self)
            }
        }
    };
}

readable!(Asked, AskedRow, "checks", "order_id", { ask_at: Option<Ts>, });
readable!(Lease, LeaseRow, "leases", "name", { holder: String, expires_at: Ts, });
readable!(Pace, PaceRow, "pacing", "name", { next_at: Ts, not_before: Ts, });

struct OutboxRow;

from_row! {
    #[expect(dead_code, reason = "the time is only there to be read")]
    struct OutboxRowRow {
        at: Ts,
        content: String,
    }
}

impl Stored for OutboxRow {
    type Row = OutboxRowRow;
    const TABLE: &'static str = "outbox";
    const KEY: &'static [&'static str] = &["seq"];
}

impl TryFrom<OutboxRowRow> for OutboxRow {
    type Error = Error;

    fn try_from(row: OutboxRowRow) -> Result<Self, Error> {
        outbox::check_lines(&row.content).map(|()| Self)
    }
}

struct AsideRow;

from_row! {
    #[expect(dead_code, reason = "some are only there to be read")]
    struct AsideRowRow {
        kind: String,
        why: String,
        tried: bool,
        at: Ts,
        line: String,
    }
}

impl Stored for AsideRow {
    type Row = AsideRowRow;
    const TABLE: &'static str = "outbox_set_aside";
    const KEY: &'static [&'static str] = &["name", "version"];
}

impl TryFrom<AsideRowRow> for AsideRow {
    type Error = Error;

    fn try_from(row: AsideRowRow) -> Result<Self, Error> {
        let line = |source| Error::Inconsistent {
            table: Self::TABLE,
            column: "line",
            id: String::new(),
            source,
        };
        match outbox::check_line(&row.line) {
            Err(error) => Err(line(error.into())),
            // The relay reads more than the line, such as the exception that it is about.
            Ok(()) if row.kind == outbox::AsideKind::Unreadable.as_str() => {
                Err(line(row.why.into()))
            }
            Ok(()) => Ok(Self),
        }
    }
}
