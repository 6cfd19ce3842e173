//! What surrounds every operation, known or not.

use std::any::Any;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;

use super::access::{self, Access};
use super::error::{ApiError, ErrorId};
use super::problem::{MEDIA_TYPE, Problem};
use super::{deadline, docs, telemetry};

/// How long a request may take before its caller is told to try again. Longer than any body takes
/// to arrive, so that only load and faults of ours get there.
pub(crate) const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Puts the layers around a router; the last one is the outermost.
pub(crate) fn around(router: Router, access: Access, limit: Duration) -> Router {
    router
        .fallback(|| async { ApiError::NoSuchPath })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        .layer(from_fn(move |request, next| {
            deadline::enforce(limit, request, next)
        }))
        // What lies within knows its `Actor`.
        .layer(from_fn_with_state(access, access::guard))
        .layer(CatchPanicLayer::custom(answer_panic))
        .layer(from_fn(write_problem))
        .layer(from_fn(add_headers))
        .layer(from_fn(telemetry::observe))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that tower-http calls"
)]
pub(crate) fn answer_panic(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let id = ErrorId::random();
    tracing::error!(error.id = %id, panic = text.unwrap_or("not a text"), "a request panicked");
    ApiError::Internal(id).into_response()
}

/// Writes problems where the path of the request is known, and makes one of every error that
/// came from elsewhere.
async fn write_problem(request: Request, next: Next) -> Response {
    let instance = request.uri().path().to_owned();
    complete(&instance, next.run(request).await)
}

/// An answer as the caller reads it.
pub(crate) fn complete(instance: &str, mut response: Response) -> Response {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        return problem.write(instance, response);
    }
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_json(&response) {
        return response;
    }
    let mut replaced = foreign(status).into_response();
    if let Some(problem) = replaced.extensions_mut().remove::<Problem>() {
        replaced = problem.write(instance, replaced);
    }
    replaced
}

/// An error that isn't ours, as one of ours.
fn foreign(status: StatusCode) -> ApiError {
    match status {
        StatusCode::NOT_FOUND => ApiError::NoSuchPath,
        StatusCode::METHOD_NOT_ALLOWED => ApiError::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::PayloadTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ApiError::UnsupportedMediaType("not this type"),
        _ if status.is_client_error() => ApiError::Invalid(Vec::new()),
        _ => {
            let id = ErrorId::random();
            tracing::error!(error.id = %id, %status, "a request failed outside of an operation");
            ApiError::Internal(id)
        }
    }
}

fn is_json(response: &Response) -> bool {
    response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| {
            let value = value.as_bytes();
            value.starts_with(b"application/json") || value == MEDIA_TYPE.as_bytes()
        })
}

/// Nothing is cached unless its operation says how; the pages of the documentation are the same
/// for ever.
async fn add_headers(request: Request, next: Next) -> Response {
    let is_page = request.uri().path().starts_with(docs::PATH);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if !is_page {
        let no_store = HeaderValue::from_static("no-store");
        headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    }
    response
}
