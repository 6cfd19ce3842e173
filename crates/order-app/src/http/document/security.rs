//! The scope that an operation needs, read from its `#[utoipa::path]`, so that what is documented
//! is what is enforced.

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};

use crate::http::answer::problem::Kind;
use crate::http::document::problem_docs;
use crate::tokens::Scope;

/// The name of the scheme in the document.
const SCHEME: &str = "token";

/// The permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Scope(Scope),
    /// Unknown paths and unsupported methods: strangers don't learn which exist.
    AnyToken,
}

/// The operations of a path, by the methods this API knows.
pub(crate) fn operations(item: &PathItem) -> impl Iterator<Item = (&'static str, &Operation)> {
    [("GET", &item.get), ("POST", &item.post)]
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// The permission that an operation declares; it must declare exactly one.
pub(crate) fn declared(operation: &Operation) -> Result<Need, String> {
    const HOW: &str = "its #[utoipa::path] must say security((\"token\" = [\"<scope>\"])), or \
                       security(()) if it is open to every caller";
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
             `ops`; none includes another. A service on a loopback address without a tokens file \
             needs no token; instead it refuses a `Host` that isn't a loopback name or address, and \
             commands from web pages of other sites.",
        ))
        .build();
    if let Some(components) = &mut openapi.components {
        components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme));
    }
    for (path, item) in &mut openapi.paths.paths {
        let is_limited = is_under_v1(path);
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            // Without tokens, any request may be refused for its `Host`.
            let mut kinds = vec![Kind::InvalidRequest, Kind::Forbidden];
            if declared(operation) != Ok(Need::Nothing) {
                kinds.push(Kind::Unauthenticated);
            }
            if is_limited {
                kinds.push(Kind::RateLimited);
            }
            let problems = problem_docs::responses(&kinds);
            operation.responses.responses.extend(problems);
        }
    }
}

pub(crate) fn is_under_v1(path: &str) -> bool {
    path.strip_prefix("/v1")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
