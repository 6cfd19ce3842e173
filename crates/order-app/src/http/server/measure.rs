//! Metrics of requests.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};

const REQUESTS: &str = "orderd_http_requests_total";
const REQUEST_SECONDS: &str = "orderd_http_request_seconds";

/// Marks an answer whose caller asked to wait; its time isn't measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited;

/// Describes the metrics to the recorder.
pub(crate) fn describe() {
    describe_counter!(
        REQUESTS,
        "HTTP requests by method, route template and status"
    );
    describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "How long HTTP requests take that were not asked to wait"
    );
}

/// Counts a request and its time. Labels come from closed lists, never from the caller: a label per
/// path would be a time series per order.
pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = known_method(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route
        .as_ref()
        .map_or("unmatched", MatchedPath::as_str)
        .to_owned();
    let status = response.status().as_u16().to_string();
    counter!(REQUESTS, "method" => method, "route" => route.clone(), "status" => status)
        .increment(1);
    if response.extensions().get::<Waited>().is_none() {
        histogram!(REQUEST_SECONDS, "method" => method, "route" => route)
            .record(started.elapsed().as_secs_f64());
    }
    response
}

fn known_method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "TRACE" => "TRACE",
        "CONNECT" => "CONNECT",
        _ => "other",
    }
}
