//! Authentication and authorisation: every request passes here before it is read.
//!
//! The scope of an operation is declared in its `#[utoipa::path]`, so that what is documented is
//! what is enforced: `security(("token" = ["orders:read"]))`, or `security(())` for everyone.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::OpenApi;

use crate::clock;
use crate::http::answer::error::ApiError;
use crate::http::document::security::{Need, declared, is_under_v1, operations};
use crate::http::request::actor::Actor;
use crate::http::server::rate::Rate;
use crate::http::server::{browser, docs};
use crate::tokens::{NotLetIn, Token, Tokens};

/// The access rules.
#[derive(Debug, Clone)]
pub(crate) struct Access(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    /// `None` if everyone may do everything.
    tokens: Option<Tokens>,
    rate: Option<Rate>,
    needs: Needs,
}

impl Access {
    pub(crate) fn new(
        tokens: Option<Tokens>,
        rate_limit: Option<NonZeroU32>,
        document: &OpenApi,
    ) -> Self {
        Self(Arc::new(Rules {
            tokens,
            rate: rate_limit.map(Rate::new),
            needs: Needs::of(document),
        }))
    }

    /// Rules that allow everyone everything.
    #[cfg(test)]
    pub(crate) fn open() -> Self {
        Self::new(None, None, &OpenApi::default())
    }

    /// Identifies the caller, or refuses the request.
    fn admit(&self, request: &Request) -> Result<Actor, ApiError> {
        let Rules {
            tokens,
            rate,
            needs,
        } = &*self.0;
        if tokens.is_none() {
            // Checked first, so that another site's page neither learns which paths exist nor uses
            // up the rate limit.
            browser::check(request)?;
        }
        let is_limited = is_under_v1(request.uri().path());
        let route = request.extensions().get::<MatchedPath>();
        let need = needs.get(route.map(MatchedPath::as_str), request.method());
        let limit = |caller| match rate {
            Some(rate) if is_limited => rate.take(caller),
            _ => Ok(()),
        };
        let Some(tokens) = tokens else {
            limit(None)?;
            return Ok(Actor::anonymous());
        };
        if need == Need::Nothing {
            return Ok(Actor::anonymous());
        }
        let token = holder(tokens, request.headers())?;
        limit(Some(token.digest))?;
        match need {
            Need::Scope(scope) if !token.allows(scope) => Err(ApiError::Forbidden(scope)),
            Need::Scope(_) | Need::Nothing | Need::AnyToken => Ok(Actor(token.name.to_string())),
        }
    }
}

/// The layer.
pub(crate) async fn guard(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Response {
    match access.admit(&request) {
        Ok(actor) => {
            request.extensions_mut().insert(actor);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

fn holder(tokens: &Tokens, headers: &HeaderMap) -> Result<Token, ApiError> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else {
        return Err(ApiError::Unauthenticated(
            "send a token in the header Authorization",
        ));
    };
    if given.next().is_some() {
        return Err(ApiError::Unauthenticated(
            "send only one Authorization header",
        ));
    }
    let secret = bearer(value.as_bytes()).ok_or(ApiError::Unauthenticated(
        "the Authorization header must be `Bearer` and a token",
    ))?;
    tokens
        .holder(secret, clock::now())
        .map_err(|why| match why {
            NotLetIn::Unknown => {
                ApiError::Unauthenticated("the token is unknown or was removed; use another one")
            }
            NotLetIn::Expired => {
                ApiError::Unauthenticated("the token has expired; use another one")
            }
        })
}

/// The token after `Bearer`, in any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, secret) = value.split_at_checked(b"Bearer".len())?;
    let secret_after_space = secret.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer") && !secret_after_space.is_empty())
        .then_some(secret_after_space)
}

/// The scope that each route needs, from the document.
#[derive(Debug)]
struct Needs(BTreeMap<String, BTreeMap<&'static str, Need>>);

impl Needs {
    fn of(document: &OpenApi) -> Self {
        let paths = document.paths.paths.iter();
        Self(
            paths
                .map(|(path, item)| {
                    let needs = operations(item).map(|(method, operation)| {
                        let need = declared(operation).unwrap_or_else(|why| {
                            panic!("{method} {path} ({:?}): {why}", operation.operation_id)
                        });
                        (method, need)
                    });
                    (path.clone(), needs.collect())
                })
                .collect(),
        )
    }

    fn get(&self, route: Option<&str>, method: &Method) -> Need {
        let Some(route) = route else {
            return Need::AnyToken;
        };
        if route.starts_with(docs::PATH) {
            return Need::Nothing;
        }
        let Some(methods) = self.0.get(route) else {
            return Need::AnyToken;
        };
        let method = if *method == Method::HEAD {
            Method::GET.as_str()
        } else {
            method.as_str()
        };
        match methods.get(method) {
            Some(need) => *need,
            // An unsupported method of a path that is open to everyone.
            None if methods.values().all(|need| *need == Need::Nothing) => Need::Nothing,
            None => Need::AnyToken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bearer;

    #[test]
    fn a_bearer_is_read_as_others_write_it() {
        for (value, expect) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("BEARER   abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearerabc", None),
            ("Bear abc", None),
            ("Basic YTpi", None),
            ("abc", None),
            ("", None),
        ] {
            let read = bearer(value.as_bytes());
            assert_eq!(read, expect.map(str::as_bytes), "{value}");
        }
    }
}
