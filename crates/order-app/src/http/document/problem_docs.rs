//! Problems in the document, from the same table as the answers, so that the two can't disagree.

use std::collections::BTreeMap;

use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::{Content, HeaderBuilder, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::answer::field_error::FieldError;
use crate::http::answer::problem::{Kind, MEDIA_TYPE};
use crate::http::document::examples;
use crate::wire::HistoryItem;
use crate::wire::schemas::{OrderStatus, RunId};

/// Documents the problems of an operation, by status.
pub(crate) fn responses(kinds: &[Kind]) -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in kinds {
        by_status
            .entry(kind.row().status.as_u16())
            .or_default()
            .push(*kind);
    }
    by_status
        .into_iter()
        .map(|(status, kinds)| (status.to_string(), RefOr::T(response(&kinds))))
        .collect()
}

fn response(kinds: &[Kind]) -> utoipa::openapi::Response {
    let slugs: Vec<String> = kinds
        .iter()
        .map(|kind| format!("`{}`: {}.", kind.row().slug, kind.row().title))
        .collect();
    let mut schemas: Vec<&str> = kinds.iter().map(|kind| schema_name(*kind)).collect();
    schemas.sort_unstable();
    schemas.dedup();
    let mut content = match schemas.as_slice() {
        [only] => Content::new(Some(Ref::from_schema_name(*only))),
        several => {
            let any = several.iter().fold(AnyOfBuilder::new(), |any, schema| {
                any.item(Ref::from_schema_name(*schema))
            });
            Content::new(Some(Schema::from(any.build())))
        }
    };
    content.examples = examples::problems(kinds).collect();
    let response = ResponseBuilder::new()
        .description(slugs.join(" "))
        .content(MEDIA_TYPE, content);
    if kinds.contains(&Kind::Unavailable) || kinds.contains(&Kind::RateLimited) {
        let seconds = HeaderBuilder::new()
            .schema(Some(i32::schema()))
            .description(Some("Seconds."));
        return response.header("Retry-After", seconds.build()).build();
    }
    if kinds.contains(&Kind::Unauthenticated) {
        let scheme = HeaderBuilder::new()
            .schema(Some(String::schema()))
            .description(Some("`Bearer`."));
        return response.header("WWW-Authenticate", scheme.build()).build();
    }
    response.build()
}

/// Documents the problems of the operation in this file, as the type `Problems`.
macro_rules! problems {
    ($($kind:ident),+ $(,)?) => {
        /// The problems of this operation.
        enum Problems {}

        impl utoipa::IntoResponses for Problems {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                use crate::http::answer::problem::Kind;
                use crate::http::document::problem_docs::responses;
                responses(&[$(Kind::$kind),+])
            }
        }
    };
}
pub(crate) use problems;

/// Documents the problems of a command: those that all commands share, and its own.
macro_rules! command_problems {
    ($($kind:ident),+ $(,)?) => {
        crate::http::document::problem_docs::problems!(
            InvalidRequest,
            $($kind,)+
            IdempotencyKeyInUse,
            PayloadTooLarge,
            UnsupportedMediaType,
            IdempotencyKeyReused,
            Internal,
            Unavailable,
        );
    };
}
pub(crate) use command_problems;

/// The schemas that the documented problems refer to.
pub(crate) fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let errors = ArrayBuilder::new()
        .items(Ref::from_schema_name(FieldError::name()))
        .description(Some("All errors that were found."));
    let invalid = base().property("errors", errors).required("errors");
    let moved_by = OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .item(Ref::from_schema_name(HistoryItem::name()))
        .description(Some("The transition that led to the current status."));
    // Null if the order doesn't exist: a payment that waits for it can't be accepted.
    let order_status = OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .item(Ref::from_schema_name(OrderStatus::name()));
    let version =
        ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Integer, Type::Null]));
    let illegal = base()
        .property("order_status", order_status)
        .required("order_status")
        .property("version", version)
        .required("version")
        .property("moved_by", moved_by)
        .required("moved_by");
    let running = base()
        .property("id", Ref::from_schema_name(RunId::name()))
        .required("id");
    vec![
        ("Problem".to_owned(), base().into()),
        ("InvalidRequestProblem".to_owned(), invalid.into()),
        ("IllegalTransitionProblem".to_owned(), illegal.into()),
        ("AlreadyRunningProblem".to_owned(), running.into()),
        (FieldError::name().into_owned(), FieldError::schema()),
    ]
}

fn base() -> ObjectBuilder {
    let texts = [
        (
            "type",
            "`/problems/` and the slug of the problem: branch on it.",
        ),
        ("title", "The kind of problem, for people."),
        ("detail", "What happened and what to do next, for people."),
        ("instance", "The path of the request."),
    ];
    let object = ObjectBuilder::new()
        .description(Some("An error (RFC 9457)."))
        .property("status", ObjectBuilder::new().schema_type(Type::Integer))
        .required("status");
    texts
        .into_iter()
        .fold(object, |object, (name, description)| {
            let text = ObjectBuilder::new()
                .schema_type(SchemaType::new(Type::String))
                .description(Some(description));
            object.property(name, text).required(name)
        })
}

fn schema_name(kind: Kind) -> &'static str {
    match kind {
        Kind::InvalidRequest => "InvalidRequestProblem",
        Kind::IllegalTransition => "IllegalTransitionProblem",
        Kind::AlreadyRunning => "AlreadyRunningProblem",
        _ => "Problem",
    }
}
