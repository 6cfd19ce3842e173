//! Rows that are read one by one: a row that can't be read doesn't take the others with it.
//!
//! `fetch_all!(conn, Checked<Order>, …)` never fails because of a row; [`sort_out`] then separates the
//! readable rows from the others. Reading rows as plain structs is for statements whose rows this
//! service computes itself, like counts.

use sqlx::{ColumnIndex, Decode, FromRow, Type};

use crate::error::Error;

/// A column that can't be decoded, or is missing in the row.
#[derive(Debug)]
pub(crate) struct BadColumn {
    pub(crate) column: &'static str,
    pub(crate) source: sqlx::Error,
}

/// What `from_row!` defines: a row as it lies in the table, whose bad column has a name.
pub(crate) trait ReadRow<'r, R: sqlx::Row>: Sized {
    fn read_row(row: &'r R) -> Result<Self, BadColumn>;
}

/// A value that is parsed from a row.
pub(crate) trait Stored: TryFrom<Self::Row, Error = Error> {
    /// The row as it lies in the table.
    type Row;

    /// Where it lies.
    const TABLE: &'static str;

    /// The columns that name it.
    const KEY: &'static [&'static str];

    /// The table of a column, for rows that are joined; `number` reads another column of the row.
    fn table_of(
        _column: &'static str,
        _number: &dyn Fn(&'static str) -> Option<i64>,
    ) -> &'static str {
        Self::TABLE
    }
}

/// A row, readable or not. Reading it never fails: what is wrong with it is an
/// [`Error::Inconsistent`] inside.
pub(crate) struct Checked<T>(pub(crate) Result<T, Error>);

impl<'r, R, T> FromRow<'r, R> for Checked<T>
where
    R: sqlx::Row,
    &'static str: ColumnIndex<R>,
    T: Stored,
    T::Row: ReadRow<'r, R>,
    &'r str: Decode<'r, R::Database>,
    &'r [u8]: Decode<'r, R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let parsed = match T::Row::read_row(row) {
            Ok(raw) => T::try_from(raw),
            Err(bad) => Err(Error::Inconsistent {
                table: T::table_of(bad.column, &|column| row.try_get(column).ok()),
                column: bad.column,
                id: String::new(),
                source: Box::new(bad.source),
            }),
        };
        Ok(Self(
            parsed.map_err(|error| named(error, || key_of(row, T::KEY))),
        ))
    }
}

/// Splits rows into the readable ones, in their order, and what is wrong with the others.
pub(crate) fn sort_out<T>(rows: Vec<Checked<T>>) -> (Vec<T>, Vec<Error>) {
    let mut readable = Vec::with_capacity(rows.len());
    let mut unreadable = Vec::new();
    for Checked(row) in rows {
        match row {
            Ok(value) => readable.push(value),
            Err(error) => unreadable.push(error),
        }
    }
    (readable, unreadable)
}

/// Gives an inconsistency the whole key of its row.
fn named(error: Error, key: impl FnOnce() -> String) -> Error {
    match error {
        Error::Inconsistent {
            table,
            column,
            source,
            ..
        } => Error::Inconsistent {
            table,
            column,
            id: key(),
            source,
        },
        other => other,
    }
}

/// The key of a row as text, as far as it can be read.
fn key_of<'r, R>(row: &'r R, columns: &[&'static str]) -> String
where
    R: sqlx::Row,
    &'static str: ColumnIndex<R>,
    &'r str: Decode<'r, R::Database>,
    &'r [u8]: Decode<'r, R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    let part = |column: &&'static str| {
        if let Ok(number) = row.try_get::<i64, _>(*column) {
            return number.to_string();
        }
        if let Ok(text) = row.try_get_unchecked::<&str, _>(*column) {
            return text.to_owned();
        }
        match row.try_get_unchecked::<&[u8], _>(*column) {
            Ok(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Err(_) => "?".to_owned(),
        }
    };
    columns.iter().map(part).collect::<Vec<_>>().join("/")
}

/// A row being read: names the place of what doesn't parse.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) table: &'static str,
    pub(crate) id: &'a str,
}

impl Row<'_> {
    pub(crate) fn column<T, E>(self, column: &'static str, value: Result<T, E>) -> Result<T, Error>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        value.map_err(|source| Error::Inconsistent {
            table: self.table,
            column,
            id: self.id.to_owned(),
            source: Box::new(source),
        })
    }

    /// What is wrong with a column, if not its text alone.
    pub(crate) fn wrong(self, column: &'static str, why: &'static str) -> Error {
        Error::Inconsistent {
            table: self.table,
            column,
            id: self.id.to_owned(),
            source: why.into(),
        }
    }

    /// Versions count from 1, and there must be a next one.
    pub(crate) fn version(self, column: &'static str, version: i64) -> Result<i64, Error> {
        if version < 1 {
            Err(self.wrong(column, "must be 1 or more"))
        } else if version == i64::MAX {
            Err(self.wrong(column, "must leave room for the next version"))
        } else {
            Ok(version)
        }
    }
}

/// Defines a struct that is read from a row of either backend: each field from the column of its name, a field written
/// `..name: Type` from the whole row, by `Type`.
///
/// It does what sqlx's derive does. That derive would make Cargo build both drivers once more, for the host.
macro_rules! from_row {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(.. $flat:ident: $flat_type:ty,)*
            $($field_vis:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($flat: $flat_type,)*
            $($field_vis $field: $type,)*
        }

        impl<'r, R> $crate::rows::ReadRow<'r, R> for $name
        where
            R: sqlx::Row,
            &'static str: sqlx::ColumnIndex<R>,
            $($flat_type: $crate::rows::ReadRow<'r, R>,)*
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
        {
            fn read_row(row: &'r R) -> Result<Self, $crate::rows::BadColumn> {
                Ok(Self {
                    $($flat: $crate::rows::ReadRow::read_row(row)?,)*
                    $($field: row.try_get(stringify!($field)).map_err(|source| {
                        $crate::rows::BadColumn { column: stringify!($field), source }
                    })?,)*
                })
            }
        }

        impl<'r, R> sqlx::FromRow<'r, R> for $name
        where
            R: sqlx::Row,
            Self: $crate::rows::ReadRow<'r, R>,
        {
            fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
                $crate::rows::ReadRow::read_row(row)
                    .map_err(|bad: $crate::rows::BadColumn| bad.source)
            }
        }
    };
}
pub(crate) use from_row;
