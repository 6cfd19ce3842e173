//! A line of the tokens file: name, scopes, expiry, digest.

use std::fmt;
use std::str::FromStr;

use super::{Scope, SecretDigest, Token};
use crate::time_format;

/// The prefix of a digest, so that another algorithm can be added later.
const DIGEST_PREFIX: &str = "sha256:";

/// The expiry of a token that never expires.
const NEVER: &str = "never";

/// Names that have another meaning in the history.
const RESERVED: [&str; 2] = ["anonymous", "orderd"];

/// The name of a token; the actor in the history.
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

/// The error for an invalid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name is 1 to 64 of A-Z a-z 0-9 . _ : @ -, the first one a letter or digit, and neither \
     anonymous nor orderd"
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

/// Reads a line; `None` if it is empty or a comment. Errors don't repeat the content, which may be a secret.
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
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let expires = token
        .expires
        .map_or_else(|| NEVER.to_owned(), time_format::format);
    format!(
        "{} {} {expires} {DIGEST_PREFIX}{}\n",
        token.name,
        scopes.join(","),
        hex::encode(token.digest.0)
    )
}

fn parse_digest(text: &str) -> Option<SecretDigest> {
    let digits = text.strip_prefix(DIGEST_PREFIX)?;
    // `hex` takes upper case as well.
    if digits.contains(|digit: char| digit.is_ascii_uppercase()) {
        return None;
    }
    let mut digest = [0; 32];
    hex::decode_to_slice(digits, &mut digest).ok()?;
    Some(SecretDigest(digest))
}
