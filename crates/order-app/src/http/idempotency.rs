//! `Idempotency-Key`: the same request again gets the first answer again.
//!
//! A layer of its own around commands: the key is claimed in one short transaction before, the
//! answer kept in another one after, and no command knows of it. If the process dies between the
//! command's commit and the second one, the request is carried out again: commands say of what is
//! already done that it is.

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use order_store::{KeptAnswer, KeyClaim, KeyedRequest, Store};
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::actor::Actor;
use super::error::ApiError;
use super::{etag, layers};
use crate::hex::{hex, random_id};
use crate::telemetry::chain;

/// The request's header.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks an answer that was given before. The name that others gave it first.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const KEY_CHARS_MAX: usize = 255;

/// The largest answer that is kept; a larger one is given and its key released.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// What is kept of the head of an answer; the rest is added to every answer.
const KEPT: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::ETAG];

/// The key of a request, if it has one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = given.next() else {
        return Ok(None);
    };
    let refused = |why: &str| ApiError::invalid("Idempotency-Key", why);
    if given.next().is_some() {
        return Err(refused("is given twice"));
    }
    let key = key.as_bytes();
    let visible = key.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(key) {
        Ok(key) if visible && (1..=KEY_CHARS_MAX).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(refused("must have 1 to 255 visible ASCII characters")),
    }
}

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

/// What makes a request the same.
pub(crate) fn digest(method: &Method, target: &str, body: &[u8]) -> String {
    let mut digest = Sha256::new();
    // Neither of the first two has a line break.
    digest.update(format!("{method}\n{target}\n"));
    digest.update(body);
    hex(&digest.finalize())
}

/// Answers as before, or carries the request out and keeps what it was answered.
pub(crate) async fn answer(
    store: &Store,
    request: KeyedRequest,
    carried_out: impl Future<Output = Response>,
) -> Response {
    // Whoever holds a key longer than any request may take is dead.
    let hold = layers::REQUEST_DEADLINE;
    match store.claim_key(request.clone(), hold).await {
        Ok(KeyClaim::Held) => keep(store, request, carried_out.await).await,
        Ok(KeyClaim::Answered(kept)) => replay(kept),
        Ok(KeyClaim::InUse) => ApiError::KeyInUse.into_response(),
        Ok(KeyClaim::OtherRequest) => ApiError::KeyReused.into_response(),
        Err(error) => ApiError::from(error).into_response(),
    }
}

/// Keeping is no condition of answering: what isn't kept is carried out again.
async fn keep(store: &Store, request: KeyedRequest, answer: Response) -> Response {
    order_store::crash::point("idempotency:carried-out");
    let (head, body) = answer.into_parts();
    // Answers of commands are in memory already.
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return ApiError::Unavailable.into_response();
    };
    let done = if is_kept(head.status) && body.len() <= ANSWER_BYTES_MAX {
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
        tracing::warn!(error = %chain(&error), "an answer was not kept under its key");
    }
    Response::from_parts(head, Body::from(body))
}

/// Answers that another try may change are not kept.
fn is_kept(status: StatusCode) -> bool {
    let passing = [
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    !status.is_server_error() && !passing.contains(&status)
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

/// `Idempotency-Key` in the document.
pub(crate) enum IdempotencyKey {}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[!-~]{1,255}$"));
        let about =
            "The same request under the same key gets the first answer again, for 24 hours.";
        vec![etag::documented("Idempotency-Key", about, schema)]
    }
}
