//! Who is asking: the name that goes into the history.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

/// The name of a caller. Handlers get it from here and nowhere else.
#[derive(Debug, Clone)]
pub(crate) struct Actor(pub(crate) String);

impl Actor {
    /// Whoever asks where no tokens are asked for.
    pub(crate) fn anonymous() -> Self {
        Self("anonymous".to_owned())
    }
}

/// What `access` found out.
impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or_else(Self::anonymous))
    }
}
