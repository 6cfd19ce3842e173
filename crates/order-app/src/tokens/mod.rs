//! Tokens: who may call the API, and what for.
//!
//! They live in a file of an operator's, one a line, with the digests of their secrets; the
//! database knows nothing of them, so that a fault there locks nobody out and a stolen backup
//! lets nobody in. Enter at [`Tokens::load`]; `line` is the format, `watch` reads the file again,
//! `issue` adds a line.

mod file;
mod issue;
mod line;
#[cfg(test)]
mod tests;
mod watch;

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
pub use watch::describe_metrics;
pub(crate) use watch::watch;

/// What a token is good for. None contains another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Reading orders and payments.
    OrdersRead,
    /// Creating and moving orders.
    OrdersWrite,
    /// What needs a person, jobs and metrics.
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
    /// If one of them is none.
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

/// A text that is no scope. It isn't repeated: it may be a secret in the wrong place.
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

/// The digest of a secret.
///
/// A plain SHA-256: salts and slow hashes protect secrets that can be guessed, and nobody guesses
/// 256 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretDigest([u8; 32]);

impl SecretDigest {
    pub(crate) fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

/// Nothing that could get into a log.
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

/// Why a secret lets nobody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotLetIn {
    /// No line has its digest.
    Unknown,
    /// Its line has had its time.
    Expired,
}

/// The tokens of a file, as it was when it was last read and understood. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: Box<Path>,
    /// What was read, whether it was understood or not.
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

    /// How many there are, expired ones included.
    pub fn count(&self) -> usize {
        self.current().len()
    }

    /// Whose secret this is.
    pub(crate) fn holder(&self, secret: &[u8], now: OffsetDateTime) -> Result<Token, NotLetIn> {
        let presented = SecretDigest::of(secret);
        let tokens = self.current();
        let mut found = None;
        // To the end, and each comparison to its end: time tells nothing about digests.
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
