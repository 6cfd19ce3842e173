//! The layers around all routes, unknown ones included.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use tower_http::catch_panic::CatchPanicLayer;

use crate::http::answer::error::ApiError;
use crate::http::answer::write;
use crate::http::server::access::{self, Access};
use crate::http::server::deadline;
use crate::http::server::docs;
use crate::http::server::drain;
use crate::http::server::measure;
use crate::http::server::page::{self, ShowProblem};

/// Puts the layers around a router; the last one is the outermost.
pub(crate) fn around(
    router: Router,
    access: Access,
    limit: Duration,
    show: Option<ShowProblem>,
) -> Router {
    router
        .fallback(|| async { ApiError::NoSuchPath })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        .layer(from_fn(move |request, next| {
            deadline::enforce(limit, request, next)
        }))
        // Layers inside of this one know the `Actor`.
        .layer(from_fn_with_state(access, access::guard))
        .layer(CatchPanicLayer::custom(write::answer_panic))
        .layer(from_fn(move |request, next| {
            write_problem(show, request, next)
        }))
        .layer(from_fn(add_headers))
        .layer(from_fn(measure::observe))
        // Outside of the measurement, which would include the time that senders of refused bodies
        // take.
        .layer(from_fn(drain::drain))
}

/// Writes the bodies of problems, which contain the path of the request, and turns the errors of
/// libraries into problems.
async fn write_problem(show: Option<ShowProblem>, request: Request, next: Next) -> Response {
    let instance = request.uri().path().to_owned();
    let response = next.run(request).await;
    match show.filter(|_| page::is_page(&instance)) {
        Some(show) => write::complete_page(show, response),
        None => write::complete(&instance, response),
    }
}

/// Answers aren't cached unless their operation allows it; the documentation never changes.
async fn add_headers(request: Request, next: Next) -> Response {
    let is_documentation = request.uri().path().starts_with(docs::PATH);
    let is_page = page::is_page(request.uri().path());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if is_page {
        page::add_headers(headers);
    }
    if !is_documentation {
        let no_store = HeaderValue::from_static("no-store");
        headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    }
    response
}
