//! Text that may be damaged: what isn't text is shown as far as it can be.

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Postgres, Sqlite, Type};

/// A text that can always be read. SQLite keeps any bytes as text, and other values where a text is due; PostgreSQL
/// knows neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lossy(pub(crate) String);

impl Type<Postgres> for Lossy {
    fn type_info() -> PgTypeInfo {
        <String as Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <String as Type<Postgres>>::compatible(ty)
    }
}

impl<'r> Decode<'r, Postgres> for Lossy {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <String as Decode<'r, Postgres>>::decode(value).map(Self)
    }
}

impl Type<Sqlite> for Lossy {
    fn type_info() -> SqliteTypeInfo {
        <String as Type<Sqlite>>::type_info()
    }

    fn compatible(_: &SqliteTypeInfo) -> bool {
        true
    }
}

impl<'r> Decode<'r, Sqlite> for Lossy {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        let bytes = <&[u8] as Decode<'r, Sqlite>>::decode(value)?;
        Ok(Self(String::from_utf8_lossy(bytes).into_owned()))
    }
}
