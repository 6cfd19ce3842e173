//! The OpenAPI document, collected from the operations.

use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, RefOr, Schema, tag::TagBuilder,
};

use crate::http::document::examples;
use crate::http::document::problem_docs;
use crate::http::document::security;

/// Where the document is served.
pub(crate) const PATH: &str = "/openapi.json";

/// The bodies of commands, which, unlike answers, must not have additional members.
const COMMANDS: [&str; 6] = [
    "ClosePaymentException",
    "CreateOrder",
    "CreateReconciliation",
    "DiscardDeadLetter",
    "OperateOrder",
    "ReplayDeadLetter",
];

const ABOUT: &str = "\
Orders and the payments that pay them.

Callers send a token (`Authorization: Bearer`), unless the service runs on a loopback address \
without a tokens file. Requests without a token get `unauthenticated`, on unknown paths too; only probes and \
documentation are open. `forbidden` names the missing scope. A service without tokens answers `forbidden` to \
a request whose `Host` isn't a loopback name or address, and to a command with the `Origin` of another site \
or with a `Sec-Fetch-Site` other than `same-origin` and `none`.

Every error is a problem (RFC 9457, `application/problem+json`): branch on `type`. \
`invalid-request` lists all errors that were found; `pointer` is a JSON pointer into the body (`/amount`), \
`?name` for a query parameter, `{name}` for a part of the path, or the name of a header. Unknown paths get `not-found`, \
unsupported methods `method-not-allowed` with `Allow`. A 503 has `Retry-After`: retry after that time. Commands can be \
repeated safely: a command whose work is already done succeeds. A body may be refused before it has arrived completely; \
`Connection: close` then says that the connection closes after the answer.

A command with an `Idempotency-Key` is carried out once: repeating it with the same method, path, query and body bytes \
replays the first answer, refusals included, byte for byte and marked with `Idempotent-Replayed: true`. \
Another request with the same key gets 422, the same request while the first is still in progress 409. The statuses 401, \
403, 412, 429 and 5xx are not stored, nor are `payment-pending`, `payment-state-unknown` and `already-running`: repeating \
the request carries it out again. Keys are stored for 24 hours, per token. A command continues when its caller \
disconnects.

Amounts are integers in minor units; fractions, exponents and strings are refused. Times are \
RFC 3339 with an offset; answers are in UTC with microseconds. Members without a value are null, \
never absent. Unknown and repeated query parameters are refused. Every `GET` also supports `HEAD`.

Lists answer `items` and `next_cursor`. A page may have fewer items than `limit`; only a null cursor ends the list. A cursor is \
opaque and valid only for the same list with the same filters.";

/// Completes the document that was collected from the operations.
pub(crate) fn complete(openapi: &mut OpenApi) {
    security::document(openapi);
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
}

/// An optional body may be absent, but null isn't a valid body.
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

/// The beginning of the document: title, tags, shared schemas.
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
            "For operators: payment exceptions, dead letters, reconciliations.",
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
