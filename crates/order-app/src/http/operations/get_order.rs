//! `GET /v1/orders/{order_id}`.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use order_store::Store;

use crate::http::error::ApiError;
use crate::http::etag::IfNoneMatch;
use crate::http::path::OrderPath;
use crate::http::problem_docs::problems;
use crate::http::query::{Nothing, Params};
use crate::http::{etag, wire};

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// Get an order
#[utoipa::path(
    get,
    path = "/v1/orders/{order_id}",
    operation_id = "get_order",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(OrderPath, IfNoneMatch),
    responses(
        (status = 200, description = "The order as it is committed.", body = wire::Order, headers(
            ("ETag" = String, description = "The version, in quotes."),
        )),
        (status = 304, description = "The order has one of the tags of `If-None-Match`.", headers(
            ("ETag" = String, description = "The version, in quotes."),
        )),
        Problems,
    ),
)]
pub(crate) async fn get_order(
    State(store): State<Store>,
    OrderPath(order_id): OrderPath,
    Params(Nothing): Params<Nothing>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = store.get_order(order_id.clone()).await?;
    let order = found.ok_or(ApiError::NoSuchOrder(order_id))?;
    let tag = etag::of_version(order.version);
    let unchanged = etag::none_match_names(&headers, &tag);
    // Kept, but asked about each time: that is what the tag is for.
    let headers = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if unchanged {
        // A body of no declared length: a Content-Length here would have to be that of the 200.
        let nothing = Body::from_stream(futures_util::stream::empty::<Result<Bytes, Infallible>>());
        return Ok((StatusCode::NOT_MODIFIED, headers, nothing).into_response());
    }
    Ok((headers, Json(wire::Order::from(order))).into_response())
}
