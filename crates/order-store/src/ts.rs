//! One time type for both databases: `timestamptz` in PostgreSQL, integer microseconds in SQLite.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};
use time::OffsetDateTime;

/// A point in time with the precision both databases keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ts(pub(crate) OffsetDateTime);

impl Ts {
    /// Microseconds since 1970.
    pub(crate) fn micros(self) -> i64 {
        // Years 0 to 9999 are some 2.5e17 microseconds: the edge lets nothing else in.
        i64::try_from(self.0.unix_timestamp_nanos().div_euclid(1000)).unwrap_or(i64::MAX)
    }

    fn from_micros(micros: i64) -> Result<Self, time::error::ComponentRange> {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000).map(Self)
    }

    /// Cuts what the databases would not keep.
    pub(crate) fn truncated(at: OffsetDateTime) -> Self {
        let nanos = at.unix_timestamp_nanos();
        OffsetDateTime::from_unix_timestamp_nanos(nanos - nanos.rem_euclid(1000))
            .map_or(Self(at), Self)
    }
}

impl Type<Postgres> for Ts {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Ts {
    fn array_type_info() -> PgTypeInfo {
        <OffsetDateTime as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Ts {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <OffsetDateTime as Encode<'_, Postgres>>::encode_by_ref(&self.0, buf)
    }
}

impl<'r> Decode<'r, Postgres> for Ts {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <OffsetDateTime as Decode<'r, Postgres>>::decode(value).map(Self)
    }
}

impl Type<Sqlite> for Ts {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(ty: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(ty)
    }
}

impl Encode<'_, Sqlite> for Ts {
    fn encode_by_ref(&self, buf: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<'_, Sqlite>>::encode(self.micros(), buf)
    }
}

impl<'r> Decode<'r, Sqlite> for Ts {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        let micros = <i64 as Decode<'r, Sqlite>>::decode(value)?;
        Ok(Self::from_micros(micros)?)
    }
}
