//! One time type for both databases: `timestamptz` in PostgreSQL, integer microseconds in SQLite.

use serde::{Serialize, Serializer};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::sqlite::{SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};
use time::OffsetDateTime;
use time::macros::datetime;

/// A point in time with the precision both databases keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ts(pub(crate) OffsetDateTime);

impl Ts {
    /// Stands in `published_at`, a column of older versions, for what is published through the outbox.
    pub(crate) const IN_THE_OUTBOX: Self = Self(OffsetDateTime::UNIX_EPOCH);

    /// Microseconds since 1970.
    pub(crate) fn micros(self) -> i64 {
        // Years 0 to 9999 are some 2.5e17 microseconds: the edge lets nothing else in.
        i64::try_from(self.0.unix_timestamp_nanos().div_euclid(1000)).unwrap_or(i64::MAX)
    }

    /// Only times that the edge lets in: what is beyond can't be answered either.
    pub(crate) fn from_micros(micros: i64) -> Result<Self, OutOfRange> {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000)
            .ok()
            .filter(|at| (0..=9999).contains(&at.year()))
            .map(Self)
            .ok_or(OutOfRange)
    }

    /// The time that much later, or the last one there is: a row may hold any time.
    pub(crate) fn plus(self, span: impl TryInto<time::Duration>) -> Self {
        let span = span.try_into().unwrap_or(time::Duration::MAX);
        Self(self.0.saturating_add(span))
    }

    /// The time that much earlier, or the first one there is.
    pub(crate) fn minus(self, span: impl TryInto<time::Duration>) -> Self {
        let span = span.try_into().unwrap_or(time::Duration::MAX);
        let earlier = self.0.saturating_sub(span);
        Self(earlier.max(FIRST))
    }

    /// Cuts what the databases would not keep.
    pub(crate) fn truncated(at: OffsetDateTime) -> Self {
        let nanos = at.unix_timestamp_nanos();
        OffsetDateTime::from_unix_timestamp_nanos(nanos - nanos.rem_euclid(1000))
            .map_or(Self(at), Self)
    }
}

/// The first time that is read from a row.
const FIRST: OffsetDateTime = datetime!(0000-01-01 00:00:00 UTC);

/// A time that a database can hold and this service doesn't know: `infinity`, or another year.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a time outside of the years 0000 to 9999")]
pub(crate) struct OutOfRange;

/// What PostgreSQL counts its microseconds from: the beginning of the year 2000.
const PG_EPOCH_MICROS: i64 = 946_684_800_000_000;

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
        if value.format() == PgValueFormat::Text {
            return <OffsetDateTime as Decode<'r, Postgres>>::decode(value).map(Self);
        }
        // sqlx adds the number to its epoch, which panics for `infinity` and years beyond 9999.
        let micros = <i64 as Decode<'r, Postgres>>::decode(value)?;
        let micros = micros.checked_add(PG_EPOCH_MICROS).ok_or(OutOfRange)?;
        Ok(Self::from_micros(micros)?)
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

/// In batches for SQLite.
impl Serialize for Ts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.micros())
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

/// A bound that times are compared with: the beginning and the end lie outside of all times, those
/// that this service doesn't know included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bound(i64);

impl Bound {
    /// At or before every time.
    pub(crate) const START: Self = Self(i64::MIN);

    /// At or after every time.
    pub(crate) const END: Self = Self(i64::MAX);

    /// The last moment before a time.
    pub(crate) fn before(at: Ts) -> Self {
        Self(at.micros().saturating_sub(1))
    }
}

impl From<OffsetDateTime> for Bound {
    fn from(at: OffsetDateTime) -> Self {
        Self(Ts(at).micros())
    }
}

impl Type<Postgres> for Bound {
    fn type_info() -> PgTypeInfo {
        <Ts as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Bound {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        // The ends of the range are what PostgreSQL takes for its infinities.
        let micros = match *self {
            Self::END => i64::MAX,
            Self(micros) => micros.saturating_sub(PG_EPOCH_MICROS),
        };
        <i64 as Encode<'_, Postgres>>::encode(micros, buf)
    }
}

impl Type<Sqlite> for Bound {
    fn type_info() -> SqliteTypeInfo {
        <Ts as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for Bound {
    fn encode_by_ref(&self, buf: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<'_, Sqlite>>::encode(self.0, buf)
    }
}

/// A time, if this service knows it: for the few rows that everything depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownTs(pub(crate) Option<Ts>);

impl<DB: sqlx::Database> Type<DB> for KnownTs
where
    Ts: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        Ts::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        Ts::compatible(ty)
    }
}

impl<'r, DB: sqlx::Database> Decode<'r, DB> for KnownTs
where
    Ts: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(Ts::decode(value).ok()))
    }
}
