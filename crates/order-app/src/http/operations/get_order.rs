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

use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::problems;
use crate::http::request::etag;
use crate::http::request::etag::IfNoneMatch;
use crate::http::request::path::OrderPath;
use crate::http::request::prefer::{PREFERENCE_APPLIED, Wait};
use crate::http::request::query::{Nothing, Params};
use crate::http::server::deadline::Deadline;
use crate::http::server::measure::Waited;
use crate::http::server::peer::Peer;
use crate::watch::{Ended, Waiter, Watch};
use crate::wire;

problems!(InvalidRequest, NotFound, Internal, Unavailable);

/// Get an order
///
/// With `If-None-Match` and `Prefer: wait=N` the answer is sent when the order gets another
/// version, after N seconds, when the caller closes its side of the connection, or when the service
/// stops; without a new version it is 304.
#[utoipa::path(
    get,
    path = "/v1/orders/{order_id}",
    operation_id = "get_order",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(OrderPath, IfNoneMatch, Wait),
    responses(
        (status = 200, description = "The order.", body = wire::Order, headers(
            ("ETag" = String, description = "The version, in quotes."),
            ("Preference-Applied" = String, description = "The wait, if one was requested."),
        )),
        (status = 304, description = "The order still has a version from `If-None-Match`.", headers(
            ("ETag" = String, description = "The version, in quotes."),
            ("Preference-Applied" = String, description = "The wait, if one was requested."),
        )),
        Problems,
    ),
)]
pub(crate) async fn get_order(
    State(store): State<Store>,
    State(watch): State<Watch>,
    deadline: Deadline,
    peer: Peer,
    OrderPath(order_id): OrderPath,
    Params(Nothing): Params<Nothing>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Without a tag every version is new to the caller, so there is nothing to wait for.
    let wait = Wait::of(&headers).filter(|_| headers.contains_key(header::IF_NONE_MATCH));
    let Some(wait) = wait else {
        let order = read(&store, order_id).await?;
        return Ok(answer(order, &headers));
    };
    let waiter = watch.enter(&order_id).ok_or(ApiError::Unavailable)?;
    deadline.put_off(wait.duration());
    let end = Instant::now() + wait.duration();
    let changed = changed(&store, &order_id, &headers, end, waiter);
    let order = tokio::select! {
        order = changed => order?,
        // The caller is gone or no longer sends: its place is freed for others.
        () = peer.hung_up() => read(&store, order_id.clone()).await?,
    };
    let mut answer = answer(order, &headers);
    answer
        .headers_mut()
        .insert(PREFERENCE_APPLIED, wait.applied());
    answer.extensions_mut().insert(Waited);
    Ok(answer)
}

async fn read(store: &Store, order_id: OrderId) -> Result<Order, ApiError> {
    let found = store.get_order(order_id.clone()).await?;
    found.ok_or(ApiError::no_such_order(&order_id))
}

fn is_known(headers: &HeaderMap, version: i64) -> bool {
    etag::none_match_names(headers, &etag::of_version(version))
}

/// The order, as soon as it has a version that the caller doesn't know, or at the end of the wait.
/// Orders in a terminal status are waited for as well, so that a caller in a loop doesn't spin.
async fn changed(
    store: &Store,
    order_id: &OrderId,
    headers: &HeaderMap,
    end: Instant,
    mut waiter: Waiter,
) -> Result<Order, ApiError> {
    // Read after the watch began, so that no later commit is missed.
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
    // May be cached, but has to be revalidated with the tag each time.
    let headers = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if unchanged {
        // A body without a length: a Content-Length would have to be that of the 200.
        let nothing = Body::from_stream(futures_util::stream::empty::<Result<Bytes, Infallible>>());
        return (StatusCode::NOT_MODIFIED, headers, nothing).into_response();
    }
    (headers, Json(wire::Order::from(order))).into_response()
}
