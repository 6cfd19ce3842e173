//! Bodies of commands: read completely, within limits of size and time, then parsed.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use futures_util::StreamExt as _;

use crate::http::answer::error::{ApiError, BODY_BYTES_MAX};
use crate::http::request::fields::Fields;

/// How long a body may take to arrive. Shorter than a request's deadline, so that a slow sender
/// gets a 400 and not a 503.
const ARRIVAL_DEADLINE: Duration = Duration::from_secs(5);

/// A command that a request describes with a JSON object.
pub(crate) trait Command: Sized {
    /// The members the object may have.
    const MEMBERS: &'static [&'static str];

    /// Reads all members; errors are collected in `fields`.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;
}

/// A command with a required body.
#[derive(Debug)]
pub(crate) struct Required<T>(pub(crate) T);

/// A command with an optional body.
#[derive(Debug)]
pub(crate) struct Optional<T>(pub(crate) Option<T>);

impl<T: Command, S: Sync> FromRequest<S> for Required<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        check_type(request.headers())?;
        let (head, body) = request.into_parts();
        let body = read(&head.headers, body, BODY_BYTES_MAX).await?;
        parse(&body).map(Self)
    }
}

impl<T: Command, S: Sync> FromRequest<S> for Optional<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        // Only a body that isn't empty needs a type.
        let typed = check_type(request.headers());
        let (head, body) = request.into_parts();
        let body = read(&head.headers, body, BODY_BYTES_MAX).await?;
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

/// Reads a body completely. `drain` handles the rest of one that was refused.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Vec<u8>, ApiError> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    if declared
        .and_then(|text| text.parse::<usize>().ok())
        .is_some_and(|bytes| bytes > bytes_max)
    {
        return Err(ApiError::PayloadTooLarge);
    }
    match tokio::time::timeout(ARRIVAL_DEADLINE, collect(body, bytes_max)).await {
        Ok(done) => done,
        Err(_) => Err(ApiError::invalid("", "did not arrive within 5 seconds")),
    }
}

async fn collect(body: Body, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut chunks = body.into_data_stream();
    let mut collected = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ApiError::invalid("", "did not arrive completely"))?;
        if collected.len() + chunk.len() > bytes_max {
            return Err(ApiError::PayloadTooLarge);
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected)
}
