//! Who is let in, and where: every request passes here before anything of it is read.
//!
//! What an operation needs stands in its `#[utoipa::path]`, so what is documented is what is
//! enforced: `security(("token" = ["orders:read"]))`, or `security(())` for everybody.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use super::actor::Actor;
use super::error::ApiError;
use super::problem::Kind;
use super::rate::Rate;
use super::{docs, problem_docs};
use crate::clock;
use crate::tokens::{NotLetIn, Scope, Token, Tokens};

/// The name of the scheme in the document.
pub(crate) const SCHEME: &str = "token";

/// Who may do what.
#[derive(Debug, Clone)]
pub(crate) struct Access(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    /// None: everybody may do everything.
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

    /// Everybody may do everything.
    #[cfg(test)]
    pub(crate) fn open() -> Self {
        Self::new(None, None, &OpenApi::default())
    }

    /// Lets a request in, in the name of its caller, or not.
    fn admit(&self, request: &Request) -> Result<Actor, ApiError> {
        let Rules {
            tokens,
            rate,
            needs,
        } = &*self.0;
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
        return Err(ApiError::Unauthenticated("a token is needed"));
    };
    if given.next().is_some() {
        return Err(ApiError::Unauthenticated(
            "there is more than one Authorization",
        ));
    }
    let secret = bearer(value.as_bytes()).ok_or(ApiError::Unauthenticated(
        "the Authorization must be Bearer and a token",
    ))?;
    tokens
        .holder(secret, clock::now())
        .map_err(|why| match why {
            NotLetIn::Unknown => ApiError::Unauthenticated("the token is not known"),
            NotLetIn::Expired => ApiError::Unauthenticated("the token has expired"),
        })
}

/// What follows `Bearer`, whose case doesn't matter.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, secret) = value.split_at_checked(b"Bearer".len())?;
    let secret_after_space = secret.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer") && !secret_after_space.is_empty())
        .then_some(secret_after_space)
}

fn is_under_v1(path: &str) -> bool {
    path.strip_prefix("/v1")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Scope(Scope),
    /// Unknown paths and wrong methods: strangers don't learn which there are.
    AnyToken,
}

/// What each route needs, from the document.
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
            // A wrong method of an open path.
            None if methods.values().all(|need| *need == Need::Nothing) => Need::Nothing,
            None => Need::AnyToken,
        }
    }
}

/// The operations of a path, by the methods this API knows.
fn operations(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    [("GET", &item.get), ("POST", &item.post)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// What the declaration of an operation says, which must be there and say one thing.
fn declared(operation: &Operation) -> Result<Need, String> {
    const HOW: &str = "its #[utoipa::path] must say security((\"token\" = [\"<scope>\"])), or \
                       security(()) if it is open to everybody";
    let declared = operation.security.as_deref().unwrap_or_default();
    let [requirement] = declared else {
        return Err(HOW.to_owned());
    };
    if *requirement == SecurityRequirement::default() {
        return Ok(Need::Nothing);
    }
    Scope::ALL
        .into_iter()
        .find(|scope| *requirement == SecurityRequirement::new(SCHEME, [scope.as_str()]))
        .map(Need::Scope)
        .ok_or_else(|| HOW.to_owned())
}

/// Describes the scheme, and its problems at every operation that needs a token.
pub(crate) fn document(openapi: &mut OpenApi) {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token made by `orderd token`. Its scopes are `orders:read`, `orders:write` and \
             `ops`; none contains another. A service on a loopback address without tokens asks \
             for none.",
        ))
        .build();
    if let Some(components) = &mut openapi.components {
        components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme));
    }
    for (path, item) in &mut openapi.paths.paths {
        let is_limited = is_under_v1(path);
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            if declared(operation) == Ok(Need::Nothing) {
                continue;
            }
            let mut kinds = vec![Kind::Unauthenticated, Kind::Forbidden];
            if is_limited {
                kinds.push(Kind::RateLimited);
            }
            let problems = problem_docs::responses(&kinds);
            operation.responses.responses.extend(problems);
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
