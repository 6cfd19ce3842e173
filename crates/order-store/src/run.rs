//! Running a statement on either backend, alone or with a batch of rows.
//!
//! PostgreSQL takes a batch as one array per column, SQLite as one JSON array of rows. The macros write each column down
//! once for both.

use serde::Serialize;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo};
use sqlx::{Encode, Postgres, Sqlite, Type};

/// Runs a statement; the number of rows it touched.
macro_rules! execute {
    ($conn:expr, $sql:expr $(, $bind:expr)* $(,)?) => {
        match $conn {
            $crate::conn::Conn::Postgres(c) => {
                sqlx::query($sql.postgres)$(.bind($bind))*.execute(&mut **c).await
                    .map(|done| done.rows_affected())
            }
            $crate::conn::Conn::Sqlite(c) => {
                sqlx::query($sql.sqlite)$(.bind($bind))*.execute(&mut **c).await
                    .map(|done| done.rows_affected())
            }
        }
    };
}

/// Runs a statement; all its rows.
macro_rules! fetch_all {
    ($conn:expr, $row:ty, $sql:expr $(, $bind:expr)* $(,)?) => {
        match $conn {
            $crate::conn::Conn::Postgres(c) => {
                sqlx::query_as::<_, $row>($sql.postgres)$(.bind($bind))*.fetch_all(&mut **c).await
            }
            $crate::conn::Conn::Sqlite(c) => {
                sqlx::query_as::<_, $row>($sql.sqlite)$(.bind($bind))*.fetch_all(&mut **c).await
            }
        }
    };
}

/// Runs a statement with a batch, then other parameters: `execute_rows!(conn, SQL, rows, |row| [row.id, row.version], now)`.
macro_rules! execute_rows {
    ($conn:expr, $sql:expr, $rows:expr, |$row:ident| [$($column:expr),+ $(,)?] $(, $bind:expr)* $(,)?) => {
        match $conn {
            $crate::conn::Conn::Postgres(c) => {
                sqlx::query($sql.postgres)
                    $(.bind($rows.iter().map(|$row| $column).collect::<Vec<_>>()))+
                    $(.bind($bind))*
                    .execute(&mut **c).await.map(|done| done.rows_affected())
            }
            $crate::conn::Conn::Sqlite(c) => {
                sqlx::query($sql.sqlite)
                    .bind($crate::run::json_rows!($rows, |$row| [$($column),+]))
                    $(.bind($bind))*
                    .execute(&mut **c).await.map(|done| done.rows_affected())
            }
        }
    };
}

/// Runs a statement with a batch like `execute_rows!`; all its rows.
macro_rules! fetch_rows {
    ($conn:expr, $answer:ty, $sql:expr, $rows:expr, |$row:ident| [$($column:expr),+ $(,)?] $(, $bind:expr)* $(,)?) => {
        match $conn {
            $crate::conn::Conn::Postgres(c) => {
                sqlx::query_as::<_, $answer>($sql.postgres)
                    $(.bind($rows.iter().map(|$row| $column).collect::<Vec<_>>()))+
                    $(.bind($bind))*
                    .fetch_all(&mut **c).await
            }
            $crate::conn::Conn::Sqlite(c) => {
                sqlx::query_as::<_, $answer>($sql.sqlite)
                    .bind($crate::run::json_rows!($rows, |$row| [$($column),+]))
                    $(.bind($bind))*
                    .fetch_all(&mut **c).await
            }
        }
    };
}

/// A batch as one JSON array of arrays, for statements that take it so in both dialects, too.
macro_rules! json_rows {
    ($rows:expr, |$row:ident| [$($column:expr),+ $(,)?]) => {
        $crate::run::json($rows.iter().map(|$row| serde_json::json!([$($column),+])))
    };
}

pub(crate) use {execute, execute_rows, fetch_all, fetch_rows, json_rows};

/// Values as one JSON array.
pub(crate) fn json<T: Into<serde_json::Value>>(values: impl IntoIterator<Item = T>) -> String {
    serde_json::Value::from_iter(values).to_string()
}

/// Values of one column: an array for PostgreSQL (`= ANY($1)`), JSON for SQLite (`IN (SELECT value FROM json_each($1))`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a, T>(pub(crate) &'a [T]);

impl<T: PgHasArrayType> Type<Postgres> for List<'_, T> {
    fn type_info() -> PgTypeInfo {
        T::array_type_info()
    }
}

impl<'q, T> Encode<'q, Postgres> for List<'_, T>
where
    for<'b> &'b [T]: Encode<'q, Postgres>,
{
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.0.encode_by_ref(buf)
    }
}

impl<T> Type<Sqlite> for List<'_, T> {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }
}

impl<T: Serialize> Encode<'_, Sqlite> for List<'_, T> {
    fn encode_by_ref(&self, buf: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        <String as Encode<'_, Sqlite>>::encode(serde_json::to_string(self.0)?, buf)
    }
}

/// Bytes in a batch. JSON can't contain bytes: SQLite gets hex digits, which its statement decodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Type<Postgres> for Bytes<'_> {
    fn type_info() -> PgTypeInfo {
        <[u8] as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Bytes<'_> {
    fn array_type_info() -> PgTypeInfo {
        <Vec<u8> as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Bytes<'_> {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <&[u8] as Encode<'_, Postgres>>::encode_by_ref(&self.0, buf)
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&hex::encode(self.0))
    }
}
