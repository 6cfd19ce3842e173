//! The OpenAPI document, collected from the operations.

use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, RefOr, Schema, tag::TagBuilder,
};

use super::{access, examples, problem_docs, routes};

/// Where the document is served.
pub(crate) const PATH: &str = "/openapi.json";

/// The bodies of commands: unlike answers they can't have members that nobody knows.
const COMMANDS: [&str; 6] = [
    "ClosePaymentException",
    "CreateOrder",
    "CreateReconciliation",
    "DiscardDeadLetter",
    "OperateOrder",
    "ReplayDeadLetter",
];

const ABOUT: &str = "\
Orders and what paid them.

Callers have a token (`Authorization: Bearer`), unless the service runs on a loopback address \
without any. Without one everything but probes and documents answers `unauthenticated`, unknown \
paths too; `forbidden` names the scope that is missing.

Every error is a problem (RFC 9457, `application/problem+json`): branch on `type`. \
`invalid-request` lists every fault it found; `pointer` is a JSON pointer into the body (`/amount`), \
`?name` for a query parameter, `{name}` for a part of the path, the name of a header. Unknown paths answer `not-found`, \
wrong methods `method-not-allowed` with `Allow`. 503 comes with `Retry-After` and is always worth \
another try; commands may be repeated, being already done is no error.

A command with an `Idempotency-Key` is carried out once: the same method, path, query and body bytes \
get the first answer again, refusals too, byte for byte and marked with `Idempotent-Replayed: true`. \
Another request under the key is answered 422, the same one while it runs 409. Answers 401, 403, 429 \
and 5xx are not kept. Keys are remembered for 24 hours, per token. A command goes on when its caller \
disconnects.

Amounts are integers of minor units; a fraction, an exponent or a string is refused. Times are \
RFC 3339 with an offset, answered in UTC with microseconds. Members that have no value are null, \
never left out. Query parameters that are unknown or given twice are refused. Wherever there is \
`GET` there is `HEAD`.

Lists answer `items` and `next_cursor`; a page may be short, only a null cursor ends. A cursor is \
opaque and only good for the same list with the same filters.";

/// The document.
pub fn openapi() -> OpenApi {
    let (_, mut openapi) = routes::routes().split_for_parts();
    access::document(&mut openapi);
    if let Some(components) = &mut openapi.components {
        for name in COMMANDS {
            if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get_mut(name) {
                let closed = AdditionalProperties::FreeForm(false);
                object.additional_properties = Some(Box::new(closed));
            }
        }
    }
    for item in openapi.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            examples::complete(operation);
        }
        if let Some(command) = &mut item.post {
            examples::mark_replayed(command);
        }
        let body = item
            .post
            .as_mut()
            .and_then(|post| post.request_body.as_mut());
        let Some(RefOr::T(body)) = body else { continue };
        for content in body.content.values_mut() {
            if let RefOr::T(content) = content {
                content.schema = content.schema.take().map(without_null);
            }
        }
    }
    openapi
}

/// A body that may be left out is absent then: null is no body of a command.
fn without_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    match schema {
        RefOr::T(Schema::OneOf(one_of)) => {
            let reference = one_of
                .items
                .iter()
                .find(|item| matches!(item, RefOr::Ref(_)));
            reference
                .cloned()
                .unwrap_or(RefOr::T(Schema::OneOf(one_of)))
        }
        other => other,
    }
}

/// The document as it is committed and served.
pub fn openapi_json() -> String {
    let json = openapi().to_pretty_json();
    json.expect("the document has string keys and serialises without fail") + "\n"
}

/// What the document says before the operations.
pub(crate) fn preamble() -> OpenApi {
    let info = InfoBuilder::new()
        .title("orderd")
        .version("1.0.0")
        .description(Some(ABOUT));
    let tags = [
        ("orders", "Creating, reading and moving orders."),
        ("payments", "Recorded payments across orders."),
        (
            "ops",
            "What needs a person: exceptions, dead letters, reconciliations.",
        ),
        ("service", "Probes, metrics and this document."),
    ];
    let tags = tags.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)));
    let mut components = ComponentsBuilder::new();
    for (name, schema) in problem_docs::schemas() {
        components = components.schema(name, schema);
    }
    OpenApiBuilder::new()
        .info(info.build())
        .tags(Some(tags.map(TagBuilder::build)))
        .components(Some(components.build()))
        .build()
}
