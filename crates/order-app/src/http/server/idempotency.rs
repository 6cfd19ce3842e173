//! `Idempotency-Key`: repeating a request replays its first answer.
//!
//! It surrounds commands, which don't know of it: the key is claimed in a short transaction before
//! a command, the answer stored in another one after it. If the process dies between the command's
//! commit and the second one, a repeated request is carried out again, and the command finds its
//! work done.

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header, response};
use axum::response::{IntoResponse as _, Response};
use order_store::{KeptAnswer, KeyClaim, KeyedRequest, Store};
use sha2::{Digest as _, Sha256};

use crate::http::answer::error::ApiError;
use crate::http::answer::problem::Kind;
use crate::http::request::actor::Actor;
use crate::http::request::key::REPLAYED;
use crate::http::server::deadline::REQUEST_DEADLINE;
use crate::random_id::random_id;
use crate::telemetry::chain;

/// The largest answer that is stored; for a larger one, the key is released.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// The headers that are stored; layers add the others to every answer.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

/// The request as the store knows it.
pub(crate) fn keyed(key: String, head: &Parts, body: &[u8]) -> KeyedRequest {
    let actor = head.extensions.get::<Actor>();
    let target = head.uri.path_and_query();
    let target = target.map_or(head.uri.path(), |target| target.as_str());
    KeyedRequest {
        actor: actor.map_or_else(|| "anonymous".to_owned(), |actor| actor.0.clone()),
        key,
        digest: digest(&head.method, target, body),
        holder: random_id(),
    }
}

/// The digest by which two requests are the same.
pub(crate) fn digest(method: &Method, target: &str, body: &[u8]) -> String {
    let mut digest = Sha256::new();
    // Method and target never contain a line break.
    digest.update(format!("{method}\n{target}\n"));
    digest.update(body);
    hex::encode(digest.finalize())
}

/// Replays the first answer, or carries the request out and stores its answer.
pub(crate) async fn answer(
    store: &Store,
    request: KeyedRequest,
    carried_out: impl Future<Output = Response>,
) -> Response {
    // A holder that exceeds the request deadline is taken for dead.
    let hold = REQUEST_DEADLINE;
    match store.claim_key(request.clone(), hold).await {
        Ok(KeyClaim::Held) => keep(store, request, carried_out.await).await,
        Ok(KeyClaim::Answered(kept)) => replay(kept),
        Ok(KeyClaim::InUse) => ApiError::KeyInUse.into_response(),
        Ok(KeyClaim::OtherRequest) => ApiError::KeyReused.into_response(),
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// The caller gets its answer even if it can't be stored: a repeated request is carried out again.
async fn keep(store: &Store, request: KeyedRequest, answer: Response) -> Response {
    order_store::crash::point("idempotency:carried-out");
    let (head, body) = answer.into_parts();
    // Answers of commands are in memory already.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return ApiError::Unavailable.into_response();
    };
    let done = if is_kept(&head) && body.len() <= ANSWER_BYTES_MAX {
        let headers = KEPT.iter().filter_map(|name| {
            let value = head.headers.get(name)?.to_str().ok()?;
            Some((name.to_string(), value.to_owned()))
        });
        let kept = KeptAnswer {
            status: head.status.as_u16(),
            headers: headers.collect(),
            body: body.to_vec(),
        };
        store.keep_answer(request, kept).await.map(drop)
    } else {
        store.release_key(request).await
    };
    if let Err(error) = done {
        tracing::warn!(error = %chain(&error), "answer not stored under its idempotency key; a repeated request is carried out again");
    }
    Response::from_parts(head, Body::from(body))
}

/// Answers that a retry may change are not stored.
fn is_kept(answer: &response::Parts) -> bool {
    let passing = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::PRECONDITION_FAILED,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    let problem = answer.extensions.get::<Kind>();
    !answer.status.is_server_error()
        && !passing.contains(&answer.status)
        && !problem.is_some_and(|kind| kind.is_passing())
}

fn replay(kept: KeptAnswer) -> Response {
    let mut answer = Response::new(Body::from(kept.body));
    // Written by this service.
    *answer.status_mut() = StatusCode::from_u16(kept.status).unwrap_or_default();
    for (name, value) in kept.headers {
        let (name, value) = (HeaderName::try_from(name), HeaderValue::try_from(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            answer.headers_mut().insert(name, value);
        }
    }
    let marked = HeaderValue::from_static("true");
    answer.headers_mut().insert(REPLAYED, marked);
    answer
}
