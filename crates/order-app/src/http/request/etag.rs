//! Entity tags of orders: their version (RFC 9110, sections 8.8.3 and 13.1).

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{IntoParams, PartialSchema};

/// The tag of a version.
pub(crate) fn of_version(version: i64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("digits between quotes")
}

/// Whether `If-None-Match` names this tag, compared weakly. An invalid header matches nothing: the
/// caller gets the full answer, which is always correct.
pub(crate) fn none_match_names(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let mut lines = headers.get_all(header::IF_NONE_MATCH).iter();
    lines.any(|line| {
        let line = line.as_bytes();
        is_any(line)
            || tags(line)
                .iter()
                .any(|named| named.opaque == tag.as_bytes())
    })
}

/// The versions that `If-Match` allows, compared strongly; `None` if it allows all. An invalid
/// header allows nothing: the command isn't carried out, which is always safe.
fn match_allows(headers: &HeaderMap) -> Option<Vec<i64>> {
    let lines: Vec<&[u8]> = headers
        .get_all(header::IF_MATCH)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if lines.is_empty() || lines.iter().any(|line| is_any(line)) {
        return None;
    }
    let strong = lines.into_iter().flat_map(tags).filter(|named| !named.weak);
    Some(strong.filter_map(|named| version(named.opaque)).collect())
}

fn is_any(line: &[u8]) -> bool {
    line.trim_ascii() == b"*"
}

/// The version that a tag stands for.
fn version(opaque: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(opaque).ok()?.trim_matches('"');
    digits
        .parse()
        .ok()
        .filter(|version| of_version(*version) == opaque)
}

struct Tag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

/// The tags of a list, empty if it isn't valid. A tag may contain commas.
fn tags(mut list: &[u8]) -> Vec<Tag<'_>> {
    let mut found = Vec::new();
    loop {
        list = list.trim_ascii_start();
        while let Some(rest) = list.strip_prefix(b",") {
            list = rest.trim_ascii_start();
        }
        if list.is_empty() {
            return found;
        }
        let weak = list.starts_with(b"W/");
        let rest = if weak { &list[2..] } else { list };
        let Some(end) = end_of_tag(rest) else {
            return Vec::new();
        };
        let opaque = &rest[..end];
        found.push(Tag { weak, opaque });
        list = rest[end..].trim_ascii_start();
        if !list.is_empty() && !list.starts_with(b",") {
            return Vec::new();
        }
    }
}

fn end_of_tag(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"\"")?;
    let quote = inside.iter().position(|byte| *byte == b'"')?;
    Some(quote + 2)
}

/// The versions of the order that a command accepts.
#[derive(Debug)]
pub(crate) struct IfMatch(pub(crate) Option<Vec<i64>>);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(match_allows(&parts.headers)))
    }
}

impl IntoParams for IfMatch {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let about =
            "Carry out the command only if the order has one of these entity tags; checked first.";
        vec![documented("If-Match", about, String::schema())]
    }
}

/// `If-None-Match` in the document.
pub(crate) enum IfNoneMatch {}

impl IntoParams for IfNoneMatch {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![documented(
            "If-None-Match",
            "Entity tags of the versions that the caller already has.",
            String::schema(),
        )]
    }
}

/// Documents an optional header.
pub(crate) fn documented(name: &str, about: &str, schema: impl Into<RefOr<Schema>>) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(schema))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&'static str], expect: bool) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_NONE_MATCH, HeaderValue::from_static(line));
        }
        assert_eq!(
            none_match_names(&headers, &of_version(2)),
            expect,
            "{lines:?}"
        );
    }

    #[test]
    fn tags_are_found_in_lists_and_compared_weakly() {
        check(&[], false);
        check(&[""], false);
        check(&["*"], true);
        check(&[" * "], true);
        check(&["\"2\""], true);
        check(&["W/\"2\""], true);
        check(&["w/\"2\""], false);
        check(&["\"1\""], false);
        check(&["\"22\""], false);
        check(&["2"], false);
        check(&["\"1\", \"2\""], true);
        check(&["\"1\",W/\"2\" , \"3\""], true);
        check(&[", ,\"2\","], true);
        check(&["\"a,b\", \"2\""], true);
        check(&["\"1\"", "\"2\""], true);
        check(&["\"1\" \"2\""], false);
        check(&["\"2\", garbage"], false);
        check(&["\"2"], false);
    }

    fn check_allowed(lines: &[&'static str], expect: Option<&[i64]>) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::IF_MATCH, HeaderValue::from_static(line));
        }
        assert_eq!(match_allows(&headers).as_deref(), expect, "{lines:?}");
    }

    #[test]
    fn commands_are_only_meant_for_strong_tags_that_can_be_read() {
        check_allowed(&[], None);
        check_allowed(&["*"], None);
        check_allowed(&["\"2\""], Some(&[2]));
        check_allowed(&["\"2\", \"3\"", "\"4\""], Some(&[2, 3, 4]));
        check_allowed(&["W/\"2\", \"3\""], Some(&[3]));
        check_allowed(&["\"02\", \"+2\", \"x\", \"\""], Some(&[]));
        check_allowed(&["2"], Some(&[]));
        check_allowed(&["\"2\" \"3\""], Some(&[]));
        check_allowed(&[""], Some(&[]));
    }
}
