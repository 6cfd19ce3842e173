//! `GET /v1/orders/{order_id}`.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use order_fsm::OrderId;
use order_store::{Order, Store};
use tokio::time::Instant;

use crate::http::deadline::Deadline;
use crate::http::error::ApiError;
use crate::http::etag::IfNoneMatch;
use crate::http::path::OrderPath;
use crate::http::prefer::{PREFERENCE_APPLIED, Wait};
use crate::http::problem_docs::problems;
use crate::http::query::{Nothing, Params};
use crate::http::telemetry::Waited;
use crate::http::{etag, wire};
use crate::watch::{Ended, Waiter, Watch};

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// Get an order
///
/// With `If-None-Match` and `Prefer: wait=N` the answer comes as soon as the order has another
/// version, at the end of the time, or when the service stops; in the latter cases it is 304.
#[utoipa::path(
    get,
    path = "/v1/orders/{order_id}",
    operation_id = "get_order",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(OrderPath, IfNoneMatch, Wait),
    responses(
        (status = 200, description = "The order as it is committed.", body = wire::Order, headers(
            ("ETag" = String, description = "The version, in quotes."),
            ("Preference-Applied" = String, description = "The wait, if one was asked for."),
        )),
        (status = 304, description = "The order has one of the tags of `If-None-Match`.", headers(
            ("ETag" = String, description = "The version, in quotes."),
            ("Preference-Applied" = String, description = "The wait, if one was asked for."),
        )),
        Problems,
    ),
)]
pub(crate) async fn get_order(
    State(store): State<Store>,
    State(watch): State<Watch>,
    deadline: Deadline,
    OrderPath(order_id): OrderPath,
    Params(Nothing): Params<Nothing>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Without a tag every version is another one: there is nothing to wait for.
    let wait = Wait::of(&headers).filter(|_| headers.contains_key(header::IF_NONE_MATCH));
    let Some(wait) = wait else {
        let order = read(&store, order_id).await?;
        return Ok(answer(order, &headers));
    };
    let waiter = watch.enter(&order_id).ok_or(ApiError::Unavailable)?;
    deadline.put_off(wait.duration());
    let order = changed(&store, order_id, &headers, wait, waiter).await?;
    let mut answer = answer(order, &headers);
    answer
        .headers_mut()
        .insert(PREFERENCE_APPLIED, wait.applied());
    answer.extensions_mut().insert(Waited);
    Ok(answer)
}

async fn read(store: &Store, order_id: OrderId) -> Result<Order, ApiError> {
    let found = store.get_order(order_id.clone()).await?;
    found.ok_or(ApiError::NoSuchOrder(order_id))
}

fn is_known(headers: &HeaderMap, version: i64) -> bool {
    etag::none_match_names(headers, &etag::of_version(version))
}

/// The order as soon as the caller doesn't know its version, at the end as it is. An order that
/// can't move any more is waited for like any other: whoever asks in a loop must not spin.
async fn changed(
    store: &Store,
    order_id: OrderId,
    headers: &HeaderMap,
    wait: Wait,
    mut waiter: Waiter,
) -> Result<Order, ApiError> {
    let end = Instant::now() + wait.duration();
    // Read after the place was taken: whatever commits from now on is told.
    let mut order = read(store, order_id.clone()).await?;
    while is_known(headers, order.version) {
        let wanted = |version| version > order.version && !is_known(headers, version);
        let ended = waiter.wait(end, wanted).await;
        if ended != Ended::Stopping {
            order = read(store, order_id.clone()).await?;
        }
        if ended != Ended::Moved {
            break;
        }
    }
    Ok(order)
}

fn answer(order: Order, headers: &HeaderMap) -> Response {
    let tag = etag::of_version(order.version);
    let unchanged = etag::none_match_names(headers, &tag);
    // Kept, but asked about each time: that is what the tag is for.
    let headers = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if unchanged {
        // A body of no declared length: a Content-Length here would have to be that of the 200.
        let nothing = Body::from_stream(futures_util::stream::empty::<Result<Bytes, Infallible>>());
        return (StatusCode::NOT_MODIFIED, headers, nothing).into_response();
    }
    (headers, Json(wire::Order::from(order))).into_response()
}
