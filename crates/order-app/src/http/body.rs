//! Bodies of commands: read whole, with a limit on size and time, then taken apart.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt as _;

use super::error::ApiError;
use super::fields::Fields;

/// The largest body.
pub(crate) const BYTES_MAX: usize = 64 * 1024;

/// How much of a larger body is still taken in, so that its sender gets to read the answer
/// instead of a broken connection.
const BYTES_DRAINED_MAX: usize = 1024 * 1024;

/// How long a body may take to arrive. Shorter than the deadline of a request: a slow sender is
/// no fault of ours.
const ARRIVAL_DEADLINE: Duration = Duration::from_secs(5);

/// Something that can be asked for with a JSON object.
pub(crate) trait Command: Sized {
    /// The members the object may have.
    const MEMBERS: &'static [&'static str];

    /// Reads all members; what is wrong with them stays in `fields`.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;
}

/// A command whose body must be there.
#[derive(Debug)]
pub(crate) struct Required<T>(pub(crate) T);

/// A command whose body may be left out.
#[derive(Debug)]
pub(crate) struct Optional<T>(pub(crate) Option<T>);

impl<T: Command, S: Sync> FromRequest<S> for Required<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        check_type(request.headers())?;
        let (head, body) = request.into_parts();
        let body = read(&head.headers, body).await?;
        parse(&body).map(Self)
    }
}

impl<T: Command, S: Sync> FromRequest<S> for Optional<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        // Whether a body needs a type is known when there is one.
        let typed = check_type(request.headers());
        let (head, body) = request.into_parts();
        let body = read(&head.headers, body).await?;
        if body.is_empty() {
            return Ok(Self(None));
        }
        typed?;
        parse(&body).map(Some).map(Self)
    }
}

fn parse<T: Command>(body: &[u8]) -> Result<T, ApiError> {
    let mut fields =
        Fields::parse(body, T::MEMBERS).map_err(|error| ApiError::Invalid(vec![error]))?;
    let command = T::read(&mut fields);
    fields.finish(command).map_err(ApiError::Invalid)
}

fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let essence = types
        .next()
        .and_then(|value| value.to_str().ok())
        .map(|value| {
            value
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase()
        });
    if essence.as_deref() != Some("application/json") || types.next().is_some() {
        return Err(ApiError::UnsupportedMediaType(
            "the Content-Type must be application/json",
        ));
    }
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(ApiError::UnsupportedMediaType(
            "the body must have no Content-Encoding",
        ));
    }
    Ok(())
}

/// All of a body.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, ApiError> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let declared = declared
        .and_then(|text| text.parse::<usize>().ok())
        .unwrap_or_default();
    // Who asks before sending has nothing under way that would have to be taken in.
    let asks = headers.contains_key(header::EXPECT);
    if declared > BYTES_DRAINED_MAX || (asks && declared > BYTES_MAX) {
        return Err(ApiError::PayloadTooLarge);
    }
    match tokio::time::timeout(ARRIVAL_DEADLINE, collect(body)).await {
        Ok(done) => done,
        Err(_) => Err(ApiError::invalid("", "did not arrive in time")),
    }
}

async fn collect(body: Body) -> Result<Vec<u8>, ApiError> {
    let mut chunks = body.into_data_stream();
    let (mut collected, mut bytes) = (Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ApiError::invalid("", "did not arrive whole"))?;
        bytes = bytes.saturating_add(chunk.len());
        if bytes <= BYTES_MAX {
            collected.extend_from_slice(&chunk);
        } else if bytes > BYTES_DRAINED_MAX {
            break;
        }
    }
    if bytes <= BYTES_MAX {
        Ok(collected)
    } else {
        Err(ApiError::PayloadTooLarge)
    }
}
