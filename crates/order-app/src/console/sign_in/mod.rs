//! Signing in with a token, and out again.

use askama::Template;
use axum::Extension;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};

use super::frame::form::{Form, PageQuery};
use super::frame::visitor::Visitor;
use super::frame::{Frame, Tab, page};
use crate::http::answer::error::ApiError;
use crate::http::server::access::Access;
use crate::http::server::page::{PATH, is_page};
use crate::http::server::session;
use crate::tokens::Scope;

#[derive(Template)]
#[template(path = "sign_in/page.html")]
struct SignInPage {
    frame: Frame,
    next: String,
    was_refused: bool,
}

/// The form; who doesn't need it goes on.
pub(super) async fn form(visitor: Visitor, query: PageQuery) -> Response {
    let next = next(query.get("next"));
    // Without a session only the machine's own callers may see anything.
    if Scope::ALL.iter().any(|scope| visitor.can(*scope)) {
        return Redirect::to(&next).into_response();
    }
    page(
        StatusCode::OK,
        &SignInPage {
            frame: Frame::new("Sign in", Tab::Elsewhere, &visitor),
            next,
            was_refused: false,
        },
    )
}

/// Sets the cookie, if the token is one.
pub(super) async fn sign_in(
    Extension(access): Extension<Access>,
    visitor: Visitor,
    headers: HeaderMap,
    form: Form,
) -> Result<Response, ApiError> {
    let next = next(form.get("next"));
    let secret = form.get("token").map(str::trim).unwrap_or_default();
    let cookie = session::set(&headers, session::COOKIE, secret);
    // A secret has none of the characters that have a meaning in a cookie.
    let is_plain = secret
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match cookie {
        Ok(cookie) if is_plain && access.knows(secret.as_bytes()) => {
            let cookie = [(header::SET_COOKIE, cookie)];
            Ok((cookie, Redirect::to(&next)).into_response())
        }
        _ => {
            let refused = SignInPage {
                frame: Frame::new("Sign in", Tab::Elsewhere, &visitor),
                next,
                was_refused: true,
            };
            let mut response = page(StatusCode::UNAUTHORIZED, &refused);
            let bearer = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, bearer);
            Ok(response)
        }
    }
}

/// Removes the cookie.
pub(super) async fn sign_out(headers: HeaderMap, _: Form) -> Result<Response, ApiError> {
    let cookie = session::set(&headers, session::COOKIE, "");
    let cookie = cookie.map_err(|_| ApiError::Unavailable)?;
    let cookie = [(header::SET_COOKIE, cookie)];
    Ok((cookie, Redirect::to("/console/sign-in")).into_response())
}

/// The page to go to: one of the console, whatever is asked for.
fn next(wanted: Option<&str>) -> String {
    let path = |address: &str| address.split(['?', '#']).next().map(is_page);
    let fits = |address: &&str| {
        let plain = address
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        plain && path(address) == Some(true) && !address.starts_with("/console/sign-")
    };
    wanted.filter(fits).unwrap_or(PATH).to_owned()
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn only_a_page_of_the_console_is_gone_to() {
        for (wanted, expect) in [
            (None, "/console"),
            (Some("/console/orders/OD-1?x=1"), "/console/orders/OD-1?x=1"),
            (Some("/console?x"), "/console?x"),
            (Some("//evil.example"), "/console"),
            (Some("https://evil.example/console"), "/console"),
            (Some("/console\\@evil.example"), "/console"),
            (Some("/consolation"), "/console"),
            (Some("/v1/orders"), "/console"),
            (Some("/console/sign-out"), "/console"),
            (Some("/console/\r\nSet-Cookie:a"), "/console"),
        ] {
            assert_eq!(next(wanted), expect, "{wanted:?}");
        }
    }
}
