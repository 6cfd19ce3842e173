//! Answers as callers read them: every error is a problem, wherever it came from.

use std::any::Any;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use crate::http::answer::error::{ApiError, ErrorId};
use crate::http::answer::problem::{MEDIA_TYPE, Problem};
use crate::telemetry::panic_text;

/// Turns a response into what the caller receives: a problem gets its body.
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

/// Turns a response of a page into what the browser receives: a problem is shown as a page, with the
/// status and headers of its response.
pub(crate) fn complete_page(show: fn(&Problem) -> Response, mut response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let problem = match response.extensions_mut().remove::<Problem>() {
        Some(problem) => problem,
        None if is_error && !is_of_type(&response, b"text/html") => Problem::from(foreign(status)),
        None => return response,
    };
    let mut page = show(&problem);
    *page.status_mut() = status;
    for (name, value) in response.headers() {
        if ![header::CONTENT_LENGTH, header::CONTENT_TYPE].contains(name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

/// The problem for an error response of a library.
fn foreign(status: StatusCode) -> ApiError {
    match status {
        StatusCode::NOT_FOUND => ApiError::NoSuchPath,
        StatusCode::METHOD_NOT_ALLOWED => ApiError::MethodNotAllowed,
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::PayloadTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            ApiError::UnsupportedMediaType("the Content-Type is not supported")
        }
        _ if status.is_client_error() => ApiError::Invalid(Vec::new()),
        _ => {
            let id = ErrorId::random();
            tracing::error!(error.id = %id, %status, "request failed outside of an operation");
            ApiError::Internal(id)
        }
    }
}

fn is_of_type(response: &Response, start: &[u8]) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE);
    value.is_some_and(|value| value.as_bytes().starts_with(start))
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

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature that tower-http calls"
)]
pub(crate) fn answer_panic(panic: Box<dyn Any + Send>) -> Response {
    let id = ErrorId::random();
    tracing::error!(error.id = %id, panic = panic_text(&*panic), "request panicked");
    ApiError::Internal(id).into_response()
}
