//! Who is asking: the name that goes into the history.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The name of a caller. Handlers get it from here and nowhere else.
#[derive(Debug, Clone)]
pub(crate) struct Actor(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self("anonymous".to_owned()))
    }
}
