//! `Prefer: wait=N` (RFC 7240). Unknown and invalid preferences are ignored, as the RFC says.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, PartialSchema as _};

use crate::http::request::etag;

/// The request's header.
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The answer's header.
pub(crate) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The longest wait. Longer ones are cut to it, which `Preference-Applied` shows.
const WAIT_MAX_SECONDS: u64 = 30;

/// How long the caller is willing to wait for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait(u64);

impl Wait {
    /// What `Prefer` asks for, if it does. The first `wait` counts, whatever follows it.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(PREFER).iter();
        let mut preferences = lines.flat_map(|line| split(line.as_bytes(), b','));
        seconds(preferences.find_map(asked)?)
    }

    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }

    /// The value of `Preference-Applied`.
    pub(crate) fn applied(self) -> HeaderValue {
        HeaderValue::try_from(format!("wait={}", self.0)).expect("letters and digits")
    }
}

/// The value of a preference if it is `wait`, empty if it has none.
fn asked(preference: &[u8]) -> Option<&[u8]> {
    // Parameters follow a semicolon; `wait` has no known ones.
    let parts = split(preference, b';');
    let (name, value): (&[u8], &[u8]) = match split(parts.first()?, b'=').as_slice() {
        [name] => (name, b""),
        [name, value] => (name, value.trim_ascii()),
        _ => return None,
    };
    name.trim_ascii()
        .eq_ignore_ascii_case(b"wait")
        .then_some(value)
}

fn seconds(value: &[u8]) -> Option<Wait> {
    // The value may be quoted.
    let inside = value
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    let digits = std::str::from_utf8(inside.unwrap_or(value)).ok()?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A number that doesn't fit is longer than the longest wait.
    let seconds = digits.parse().unwrap_or(u64::MAX);
    Some(Wait(seconds.min(WAIT_MAX_SECONDS)))
}

/// The parts between separators that stand outside of quotes.
fn split(text: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if quoted && *byte == b'\\' {
            escaped = true;
        } else if *byte == b'"' {
            quoted = !quoted;
        } else if *byte == separator && !quoted {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

impl IntoParams for Wait {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let about = "`wait=N`: wait up to N seconds, 30 at most, for a version that \
                     `If-None-Match` doesn't name. Other preferences are ignored.";
        vec![etag::documented("Prefer", about, String::schema())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&'static str], expect: Option<u64>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PREFER, HeaderValue::from_static(line));
        }
        assert_eq!(Wait::of(&headers).map(|wait| wait.0), expect, "{lines:?}");
    }

    #[test]
    fn the_first_wait_is_found_among_other_preferences() {
        check(&[], None);
        check(&[""], None);
        check(&["wait=5"], Some(5));
        check(&["wait=0"], Some(0));
        check(&["Wait = 5"], Some(5));
        check(&["wait=\"5\""], Some(5));
        check(&["wait=5; x=y"], Some(5));
        check(&["respond-async, wait=5"], Some(5));
        check(&["respond-async", "wait=5"], Some(5));
        check(&["wait=5, wait=9"], Some(5));
        check(&["wait=5", "wait=9"], Some(5));
        check(&["x=\"a, wait=1\", wait=5"], Some(5));
        check(&["x=\"a\\\", wait=1\", wait=5"], Some(5));
        check(&["x; wait=5"], None);
        check(&["await=5"], None);
        check(&[",,wait=5,"], Some(5));
    }

    #[test]
    fn long_waits_are_cut_and_malformed_ones_ignored() {
        check(&["wait=30"], Some(30));
        check(&["wait=31"], Some(30));
        check(&["wait=99999999999999999999999"], Some(30));
        check(&["wait"], None);
        check(&["wait="], None);
        check(&["wait=-1"], None);
        check(&["wait=+1"], None);
        check(&["wait=1.5"], None);
        check(&["wait=5s"], None);
        check(&["wait=5=6"], None);
        check(&["wait=\"5"], None);
        check(&["wait=x, wait=5"], None);
    }
}
