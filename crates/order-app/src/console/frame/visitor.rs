//! Who looks at a page.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::tokens::Scope;

/// The caller of a page, as `guard` identified it.
#[derive(Clone)]
pub(crate) struct Visitor {
    /// The name of the token; `None` without a session.
    pub(crate) name: Option<String>,
    pub(super) scopes: Vec<Scope>,
    form_token: String,
}

impl Visitor {
    /// The seed is a secret of the browser that scripts can't read.
    pub(super) fn new(name: Option<String>, scopes: Vec<Scope>, seed: &[u8]) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"orderd form\0");
        digest.update(seed);
        Self {
            name,
            scopes,
            form_token: hex::encode(digest.finalize()),
        }
    }

    pub(crate) fn can(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// What every form contains, so that no other site can make one up.
    pub(super) fn form_token(&self) -> &str {
        &self.form_token
    }

    /// Whether a form was made for this browser.
    pub(super) fn made(&self, form_token: &str) -> bool {
        let (own, given) = (self.form_token.as_bytes(), form_token.as_bytes());
        own.ct_eq(given).into()
    }
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>().cloned();
        // Without the guard, a caller who may see and send nothing.
        Ok(known.unwrap_or_else(|| Self::new(None, Vec::new(), &rand::random::<[u8; 16]>())))
    }
}
