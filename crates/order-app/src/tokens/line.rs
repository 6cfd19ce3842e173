//! A line of the tokens file: name, scopes, expiry, digest.

use std::fmt;
use std::str::FromStr;

use super::{Scope, SecretDigest, Token};
use crate::time_format;

/// What a digest starts with, so that another one can follow some day.
const DIGEST_PREFIX: &str = "sha256:";

/// The expiry of a token that has none.
const NEVER: &str = "never";

/// Names that stand for somebody else in the history.
const RESERVED: [&str; 2] = ["anonymous", "orderd"];

/// The name of a token: who did it, in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenName(String);

impl TokenName {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no name of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name is 1 to 64 of A-Z a-z 0-9 . _ : @ -, the first one a letter or digit, and neither anonymous nor orderd"
)]
pub struct WrongName;

impl FromStr for TokenName {
    type Err = WrongName;

    fn from_str(text: &str) -> Result<Self, WrongName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._:@-".contains(c);
        let valid = (1..=64).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(fits)
            && !RESERVED.iter().any(|name| text.eq_ignore_ascii_case(name));
        valid.then(|| Self(text.to_owned())).ok_or(WrongName)
    }
}

/// Reads a line; none if it only holds a comment. What is wrong is said without repeating what is
/// there: it may be a secret.
pub(super) fn parse(line: &str) -> Result<Option<Token>, String> {
    let fields: Vec<&str> = line
        .split_whitespace()
        .take_while(|field| !field.starts_with('#'))
        .collect();
    let [name, scopes, expires, digest] = match fields.as_slice() {
        [] => return Ok(None),
        [name, scopes, expires, digest] => [*name, *scopes, *expires, *digest],
        others => {
            return Err(format!(
                "a line is name, scopes, expiry and digest, but this one has {} field(s)",
                others.len()
            ));
        }
    };
    Ok(Some(Token {
        name: name
            .parse()
            .map_err(|error: WrongName| format!("the name: {error}"))?,
        scopes: Scope::parse_list(scopes).map_err(|error| format!("the scopes: {error}"))?,
        expires: match expires {
            NEVER => None,
            time => {
                Some(time_format::parse(time).map_err(|_| {
                    "the expiry: never, or an RFC 3339 time with an offset".to_owned()
                })?)
            }
        },
        digest: parse_digest(digest).ok_or("the digest: sha256: and 64 lower-case hex digits")?,
    }))
}

/// Writes a line, with its end.
pub(super) fn format(token: &Token) -> String {
    use fmt::Write as _;

    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let expires = token
        .expires
        .map_or_else(|| NEVER.to_owned(), time_format::format);
    let mut line = format!(
        "{} {} {expires} {DIGEST_PREFIX}",
        token.name,
        scopes.join(",")
    );
    for byte in token.digest.0 {
        // Writing to a String cannot fail.
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    line
}

fn parse_digest(text: &str) -> Option<SecretDigest> {
    let hex = text.strip_prefix(DIGEST_PREFIX)?.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    let (pairs, rest) = hex.as_chunks::<2>();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        *byte = digit(*high)? * 16 + digit(*low)?;
    }
    Some(SecretDigest(digest))
}
