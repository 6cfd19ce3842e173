//! The words, ids, money and times of the document, each described once.

use order_fsm::OrderEvent;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A type that is only there to be described: on the wire it is a text or a number.
macro_rules! described {
    ($(#[doc = $doc:literal])* $name:ident, $schema:expr) => {
        $(#[doc = $doc])*
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.description(Some(concat!($($doc),*).trim())).into()
            }
        }

        impl ToSchema for $name {}
    };
}

described!(
    /// An id, compared byte for byte.
    Id,
    pattern("^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")
);
described!(
    /// A payment provider.
    Provider,
    pattern("^[a-z0-9_-]{1,32}$")
);
described!(
    /// An ISO 4217 alphabetic code.
    Currency,
    pattern("^[A-Z]{3}$")
);
described!(
    /// Money in minor units, written as an integer without fraction or exponent.
    Amount,
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(1))
        .maximum(Some(order_fsm::Amount::MAX))
);
described!(
    /// A time: RFC 3339 with an offset; answered in UTC with microseconds.
    Time,
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
);
described!(
    /// Where an order stands.
    OrderStatus,
    words(order_fsm::OrderStatus::ALL.map(order_fsm::OrderStatus::as_str))
);
described!(
    /// What a payment did to its order.
    Verdict,
    words(order_fsm::Verdict::ALL.map(order_fsm::Verdict::as_str))
);
described!(
    /// Which way a fact or an operation came in.
    Source,
    words(order_store::Source::ALL.map(order_store::Source::as_str))
);
described!(
    /// A SHA-256 digest in lower-case hex.
    Digest,
    pattern("^[0-9a-f]{64}$")
);
described!(
    /// The id of a run.
    RunId,
    pattern("^[0-9a-f]{32}$")
);
described!(
    /// How far a run is.
    RunState,
    words(order_store::RunState::ALL.iter().map(|state| state.as_str()))
);
described!(
    /// Who wanted a run.
    StartedBy,
    words(order_store::StartedBy::ALL.iter().map(|who| who.as_str()))
);
described!(
    /// What a run reports to people.
    FindingKind,
    words(order_store::FindingKind::ALL.map(order_store::FindingKind::as_str))
);
described!(
    /// Whether an exception still needs a person.
    ExceptionState,
    words(order_store::ExceptionState::ALL.map(order_store::ExceptionState::as_str))
);
described!(
    /// How a person closes an exception.
    Resolution,
    words(order_store::Resolution::ALL.map(order_store::Resolution::as_str))
);
described!(
    /// What became of a dead letter.
    LetterState,
    words(order_store::LetterState::ALL.map(order_store::LetterState::as_str))
);
described!(
    /// Why a message was not understood.
    LetterReason,
    words(crate::payment_event::Reason::ALL.map(crate::payment_event::Reason::as_str))
);
described!(
    /// What happened to an order.
    HistoryEvent,
    words(std::iter::once("create").chain(OrderEvent::ALL.map(OrderEvent::as_str)))
);

fn pattern(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
}
