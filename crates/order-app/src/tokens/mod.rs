//! Tokens: which callers may use the API, and for what.
//!
//! They are in a file that an operator maintains, one per line, with the digests of their secrets.
//! They aren't in the database, so that a database fault locks no caller out and a stolen backup
//! gives no access. Enter at [`Tokens::load`]; `line` is the format, `reload` reads the file again,
//! `issue` adds a line.

mod file;
mod issue;
mod line;
mod reload;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;

pub use file::Error;
pub use issue::{IssueError, NewToken, issue};
pub use line::{TokenName, WrongName};
pub use reload::describe_metrics;
pub(crate) use reload::reload_when_changed;

/// What a token may be used for. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Reading orders and payments.
    OrdersRead,
    /// Creating and moving orders.
    OrdersWrite,
    /// Exceptions, dead letters, reconciliation runs and metrics.
    Ops,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::OrdersRead, Self::OrdersWrite, Self::Ops];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OrdersRead => "orders:read",
            Self::OrdersWrite => "orders:write",
            Self::Ops => "ops",
        }
    }

    /// Reads a list, separated by commas; without repetitions.
    ///
    /// # Errors
    /// If one of them isn't a scope.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, WrongScope> {
        let mut scopes = text
            .split(',')
            .map(|scope| scope.trim().parse())
            .collect::<Result<Vec<Self>, _>>()?;
        scopes.sort_unstable();
        scopes.dedup();
        Ok(scopes)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for an unknown scope. It doesn't repeat the text, which may be a secret in the wrong
/// place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("scopes are orders:read, orders:write and ops, separated by commas")]
pub struct WrongScope;

impl FromStr for Scope {
    type Err = WrongScope;

    fn from_str(text: &str) -> Result<Self, WrongScope> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        known.ok_or(WrongScope)
    }
}

/// The digest of a secret. A plain SHA-256: salts and slow hashes protect secrets that can be guessed, and
/// 256 random bits can't be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretDigest([u8; 32]);

impl SecretDigest {
    pub(crate) fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

/// Without the digest, which must not get into a log.
impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

/// A line of the tokens file.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) name: TokenName,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) expires: Option<OffsetDateTime>,
    pub(crate) digest: SecretDigest,
}

impl Token {
    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// Why a secret isn't accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// No line has its digest.
    Unknown,
    /// It has expired.
    Expired,
}

/// The tokens of a file, as it was when it was last read and understood. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: Box<Path>,
    /// The content that was first read.
    first_read: file::Content,
    current: RwLock<Arc<[Token]>>,
}

impl Tokens {
    /// Reads a file for the first time.
    ///
    /// # Errors
    /// If it can't be read, or a line of it can't be understood.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let content = file::read(path);
        let tokens = file::understand(path, &content)?;
        Ok(Self(Arc::new(Shared {
            path: path.into(),
            first_read: content,
            current: RwLock::new(tokens.into()),
        })))
    }

    /// The number of tokens, including expired ones.
    pub fn count(&self) -> usize {
        self.current().len()
    }

    /// The token with this secret.
    pub(crate) fn holder(&self, secret: &[u8], now: OffsetDateTime) -> Result<Token, NotLetIn> {
        let presented = SecretDigest::of(secret);
        let tokens = self.current();
        let mut found = None;
        // All tokens are compared, each in constant time, so that timing reveals nothing about
        // digests.
        for token in tokens.iter() {
            if bool::from(token.digest.0.ct_eq(&presented.0)) {
                found = Some(token);
            }
        }
        let token = found.ok_or(NotLetIn::Unknown)?;
        if token.expires.is_some_and(|expires| expires <= now) {
            return Err(NotLetIn::Expired);
        }
        Ok(token.clone())
    }

    /// Reads the file again at once.
    #[cfg(test)]
    pub(crate) fn read_again(&self) {
        let content = file::read(&self.0.path);
        self.replace(file::understand(&self.0.path, &content).unwrap());
    }

    fn current(&self) -> Arc<[Token]> {
        let current = self.0.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, tokens: Vec<Token>) {
        let mut current = self
            .0
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = tokens.into();
    }
}
