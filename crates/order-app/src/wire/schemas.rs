//! The enums, ids, amounts and times of the document, each described once.

use order_fsm::OrderEvent;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A type that exists only for its description: on the wire it is a string or a number.
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

/// The words of an enum.
macro_rules! words {
    ($(#[doc = $doc:literal])* $name:ident: $words:ty) => {
        described!($(#[doc = $doc])* $name, words(<$words>::ALL.map(<$words>::as_str)));
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
words!(
    /// The status of an order.
    OrderStatus: order_fsm::OrderStatus
);
words!(
    /// The effect of a payment on its order.
    Verdict: order_fsm::Verdict
);
words!(
    /// Where a payment or an operation came from.
    Source: order_store::Source
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
words!(
    /// The state of a run.
    RunState: order_store::RunState
);
words!(
    /// What started a run.
    StartedBy: order_store::StartedBy
);
words!(
    /// The kind of a finding.
    FindingKind: order_store::FindingKind
);
words!(
    /// Whether an exception still needs a person.
    ExceptionState: order_store::ExceptionState
);
words!(
    /// How a person closes an exception.
    Resolution: order_store::Resolution
);
words!(
    /// The state of a dead letter.
    LetterState: order_store::LetterState
);
words!(
    /// Why a message couldn't be processed.
    LetterReason: crate::payment_event::Reason
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
