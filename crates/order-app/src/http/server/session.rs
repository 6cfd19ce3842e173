//! The session of a browser: a cookie with the secret of a token.
//!
//! Every instance can check it against the tokens file, no instance stores it, and it ends with its
//! token. It counts for pages only: the API doesn't read cookies, so no other site's page can use
//! it there.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::http::server::browser;

/// The name of the cookie.
pub(crate) const COOKIE: &str = "orderd_session";

/// Cookies of the name that are looked at; services on other ports of a host may set some too.
const COOKIES_MAX: usize = 4;

/// The values of the session's cookies.
pub(crate) fn secrets(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    cookies(headers, COOKIE).take(COOKIES_MAX)
}

/// The values of the cookies with this name.
pub(crate) fn cookies<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=")
    })
}

/// Sets a cookie for the session of the browser; an empty value removes it. Scripts can't read it,
/// and it isn't sent with requests of other sites.
///
/// # Errors
/// If the value can't be in a cookie.
pub(crate) fn set(
    headers: &HeaderMap,
    name: &str,
    value: &str,
) -> Result<HeaderValue, axum::http::header::InvalidHeaderValue> {
    // Browsers take a `Secure` cookie over TLS only, and loopback addresses have none.
    let secure = if browser::is_for_loopback(headers) {
        ""
    } else {
        "; Secure"
    };
    let ends = if value.is_empty() { "; Max-Age=0" } else { "" };
    HeaderValue::try_from(format!(
        "{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_in_any_line_and_place() {
        let mut headers = HeaderMap::new();
        for line in [
            "a=1; orderd_session=one",
            "orderd_session=two;b=2",
            "orderd_sessions=no",
        ] {
            headers.append(header::COOKIE, HeaderValue::from_static(line));
        }
        let found: Vec<&[u8]> = secrets(&headers).collect();
        assert_eq!(found, [&b"one"[..], b"two"]);
    }
}
