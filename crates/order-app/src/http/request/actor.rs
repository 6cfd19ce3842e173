//! The caller's name, as the history records it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The name of the caller. Handlers get it only from here.
#[derive(Debug, Clone)]
pub(crate) struct Actor(pub(crate) String);

impl Actor {
    /// The caller of a service without tokens.
    pub(crate) fn anonymous() -> Self {
        Self("anonymous".to_owned())
    }
}

/// The caller that `access` identified.
impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or_else(Self::anonymous))
    }
}
