//! The ids in paths.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use order_fsm::OrderId;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{Ref, Required};
use utoipa::{IntoParams, ToSchema};

use crate::http::answer::error::ApiError;
use crate::wire::schemas::{Digest, Id, RunId};

/// Defines an extractor for the id in a path, and documents it.
macro_rules! path_id {
    ($(#[doc = $doc:literal])* $path:ident($id:ty), $name:literal: $schema:ident, $about:literal, $read:expr) => {
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub(crate) struct $path(pub(crate) $id);

        impl<S: Send + Sync> FromRequestParts<S> for $path {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
                let pointer = concat!("{", $name, "}");
                let Path(text) = Path::<String>::from_request_parts(parts, state)
                    .await
                    .map_err(|_| ApiError::invalid(pointer, "is not valid UTF-8"))?;
                $read(pointer, text).map(Self)
            }
        }

        impl IntoParams for $path {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                let parameter = ParameterBuilder::new()
                    .name($name)
                    .parameter_in(ParameterIn::Path)
                    .required(Required::True)
                    .description(Some($about))
                    .schema(Some(Ref::from_schema_name($schema::name())));
                vec![parameter.build()]
            }
        }
    };
}

path_id!(
    /// The order that the path names.
    OrderPath(OrderId), "order_id": Id, "The business id of the order.", |pointer, text: String| order_id(pointer, &text)
);
path_id!(
    /// The digest that the path names.
    DigestPath(String), "id": Digest, "The id from the list.", |_, text| hex(text, 64)
);
path_id!(
    /// The reconciliation run that the path names.
    RunPath(String), "id": RunId, "The id of the run.", |_, text| hex(text, 32)
);

fn order_id(pointer: &str, text: &str) -> Result<OrderId, ApiError> {
    let id = text.parse::<OrderId>();
    id.map_err(|why| ApiError::invalid(pointer, why.to_string()))
}

/// A text of another form can't be the id of anything, so it is not found.
fn hex(text: String, length: usize) -> Result<String, ApiError> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    if text.len() == length && text.bytes().all(is_digit) {
        Ok(text)
    } else {
        Err(ApiError::NoSuchPath)
    }
}
