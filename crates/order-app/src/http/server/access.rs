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
use crate::http::server::{browser, docs, page, session};
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

    /// Identifies the caller of a page by its session, or refuses the request.
    ///
    /// # Errors
    /// If a command comes from another site's page, or the rate limit is exceeded.
    pub(crate) fn admit_to_page(&self, request: &Request) -> Result<PageCaller, ApiError> {
        let Rules { tokens, rate, .. } = &*self.0;
        let limit = |caller| rate.as_ref().map_or(Ok(()), |rate| rate.take(caller));
        let Some(tokens) = tokens else {
            // `admit` checked where it comes from.
            limit(None)?;
            return Ok(PageCaller::Anyone);
        };
        browser::check_page(request)?;
        let held = session::secrets(request.headers())
            .find_map(|secret| Some((tokens.holder(secret, clock::now()).ok()?, secret)));
        limit(held.as_ref().map(|(token, _)| token.digest))?;
        Ok(match held {
            Some((token, secret)) => PageCaller::Holder(token, secret.to_vec()),
            None => PageCaller::Stranger,
        })
    }

    /// Whether this is the secret of a token that may be used now.
    pub(crate) fn knows(&self, secret: &[u8]) -> bool {
        let tokens = self.0.tokens.as_ref();
        tokens.is_some_and(|tokens| tokens.holder(secret, clock::now()).is_ok())
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
        if page::is_page(request.uri().path()) {
            // It identifies its caller by the session.
            return Ok(Actor::anonymous());
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

/// The caller of a page. Not to be logged: it has a secret.
pub(crate) enum PageCaller {
    /// The service has no tokens: everyone on the machine is allowed everything.
    Anyone,
    /// The holder of this token, with its secret.
    Holder(Token, Vec<u8>),
    /// A caller without a session.
    Stranger,
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
            if page::is_page(request.uri().path()) {
                request.extensions_mut().insert(access);
            }
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
