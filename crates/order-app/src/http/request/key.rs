//! The header `Idempotency-Key`.

use axum::http::{HeaderMap, HeaderName};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::http::answer::error::ApiError;
use crate::http::request::etag;

/// The request's header.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks a replayed answer; other APIs use the same name.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

const KEY_CHARS_MAX: usize = 255;

/// The request's key, if it has one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = given.next() else {
        return Ok(None);
    };
    let refused = |why: &str| ApiError::invalid("Idempotency-Key", why);
    if given.next().is_some() {
        return Err(refused("is given more than once"));
    }
    let key = key.as_bytes();
    let visible = key.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(key) {
        Ok(key) if visible && (1..=KEY_CHARS_MAX).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => Err(refused("must have 1 to 255 visible ASCII characters")),
    }
}

/// `Idempotency-Key` in the document.
pub(crate) enum IdempotencyKey {}

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[!-~]{1,255}$"));
        let about =
            "Repeating the request with the same key replays the first answer, for 24 hours.";
        vec![etag::documented("Idempotency-Key", about, schema)]
    }
}
