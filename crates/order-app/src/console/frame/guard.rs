//! Admits callers to pages: by session and scope, or to the page where they sign in.

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::MethodRouter;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::visitor::Visitor;
use crate::http::Shared;
use crate::http::answer::error::{ApiError, ErrorId};
use crate::http::request::actor::Actor;
use crate::http::server::access::{Access, PageCaller};
use crate::http::server::session;
use crate::random_id::random_id;
use crate::tokens::Scope;

/// The cookie that forms are bound to as long as there is no session.
const FORM_COOKIE: &str = "orderd_form";

/// Where a browser with htmx is sent, since it would follow a redirect unnoticed.
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");

/// What the caller of a page needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    /// Any token: its scopes decide what the page shows.
    AnyToken,
    Scope(Scope),
}

/// A page with what its caller needs.
pub(crate) fn guarded(need: Need, page: MethodRouter<Shared>) -> MethodRouter<Shared> {
    page.route_layer(from_fn_with_state(need, guard))
}

async fn guard(State(need): State<Need>, mut request: Request, next: Next) -> Response {
    let admitted = match admit(need, &request) {
        Ok(admitted) => admitted,
        Err(Turned::Away(error)) => return error.into_response(),
        Err(Turned::ToSignIn) => return to_sign_in(&request),
    };
    let Admitted { visitor, new_seed } = admitted;
    let cookie = new_seed.map(|seed| session::set(request.headers(), FORM_COOKIE, &seed));
    let actor = visitor.name.clone();
    let extensions = request.extensions_mut();
    extensions.insert(actor.map_or_else(Actor::anonymous, Actor));
    extensions.insert(visitor);
    let mut response = next.run(request).await;
    if let Some(Ok(cookie)) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

struct Admitted {
    visitor: Visitor,
    /// To be set as the cookie that forms are bound to.
    new_seed: Option<String>,
}

enum Turned {
    Away(ApiError),
    ToSignIn,
}

fn admit(need: Need, request: &Request) -> Result<Admitted, Turned> {
    let Some(access) = request.extensions().get::<Access>() else {
        return Err(Turned::Away(ApiError::Internal(ErrorId::random())));
    };
    let caller = access.admit_to_page(request).map_err(Turned::Away)?;
    let (name, scopes, secret) = match caller {
        PageCaller::Anyone => (None, Scope::ALL.to_vec(), None),
        PageCaller::Holder(token, secret) => {
            (Some(token.name.to_string()), token.scopes, Some(secret))
        }
        PageCaller::Stranger if need == Need::Nothing => (None, Vec::new(), None),
        PageCaller::Stranger => return Err(Turned::ToSignIn),
    };
    if let Need::Scope(scope) = need
        && !scopes.contains(&scope)
    {
        return Err(Turned::Away(ApiError::Forbidden(scope)));
    }
    let seed = || session::cookies(request.headers(), FORM_COOKIE).next();
    let seed = secret.or_else(|| seed().map(<[u8]>::to_vec));
    let (seed, new_seed) = if let Some(seed) = seed {
        (seed, None)
    } else {
        let seed = random_id();
        (seed.clone().into_bytes(), Some(seed))
    };
    let visitor = Visitor::new(name, scopes, &seed);
    Ok(Admitted { visitor, new_seed })
}

/// After signing in, the browser comes back to the page that it asked for.
fn to_sign_in(request: &Request) -> Response {
    let page = request
        .uri()
        .path_and_query()
        .map_or("", |page| page.as_str());
    let is_page = request.method().is_safe() && page.len() < 1000;
    let place = if is_page {
        let page = utf8_percent_encode(page, NON_ALPHANUMERIC);
        format!("/console/sign-in?next={page}")
    } else {
        "/console/sign-in".to_owned()
    };
    if request.headers().contains_key("hx-request")
        && let Ok(place) = HeaderValue::try_from(&place)
    {
        return (StatusCode::OK, [(HX_REDIRECT, place)]).into_response();
    }
    Redirect::to(&place).into_response()
}
