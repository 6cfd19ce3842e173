//! The ids in paths.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use order_fsm::OrderId;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Ref, Required};
use utoipa::{IntoParams, ToSchema};

use super::error::ApiError;
use super::schemas::{Digest, Id, RunId};

const POINTER: &str = "{order_id}";

/// The order that the path names.
#[derive(Debug)]
pub(crate) struct OrderPath(pub(crate) OrderId);

impl<S: Send + Sync> FromRequestParts<S> for OrderPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid(POINTER, "is not UTF-8"))?;
        let id = text
            .parse()
            .map_err(|why: order_fsm::InvalidId| ApiError::invalid(POINTER, why.to_string()))?;
        Ok(Self(id))
    }
}

impl IntoParams for OrderPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameter = ParameterBuilder::new()
            .name("order_id")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("The business id of the order."))
            .schema(Some(Ref::from_schema_name(Id::name())));
        vec![parameter.build()]
    }
}

/// The digest that the path names. What is no digest names nothing.
#[derive(Debug)]
pub(crate) struct DigestPath(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for DigestPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("{id}", "is not UTF-8"))?;
        if is_hex(&text, 64) {
            Ok(Self(text))
        } else {
            Err(ApiError::NoSuchPath)
        }
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    text.len() == length && text.bytes().all(hex)
}

/// The run that the path names. What is no id of a run names nothing.
#[derive(Debug)]
pub(crate) struct RunPath(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("{id}", "is not UTF-8"))?;
        if is_hex(&text, 32) {
            Ok(Self(text))
        } else {
            Err(ApiError::NoSuchPath)
        }
    }
}

impl IntoParams for RunPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameter = ParameterBuilder::new()
            .name("id")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("The id of the run."))
            .schema(Some(Ref::from_schema_name(RunId::name())));
        vec![parameter.build()]
    }
}

impl IntoParams for DigestPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let parameter = ParameterBuilder::new()
            .name("id")
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some("The digest it is listed with."))
            .schema(Some(Ref::from_schema_name(Digest::name())));
        vec![parameter.build()]
    }
}
