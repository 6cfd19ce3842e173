//! A server of `NATS_URL`, and the login that its URL contains.
//!
//! async-nats ignores the login before the `@` of a URL, and logs it. So the login is taken out of
//! the URL here, and sent when a connection is made.

use std::fmt;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsServer {
    /// Its address, without user, password and token.
    pub address: async_nats::ServerAddr,
    /// The login in its URL.
    pub login: Option<Login>,
}

/// A login.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// A user and a password.
    User {
        /// The user's name.
        name: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { .. } => f.write_str("User(***)"),
            Self::Token(_) => f.write_str("Token(***)"),
        }
    }
}

impl NatsServer {
    /// Reads one URL; `None` if it can't be used.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let full: async_nats::ServerAddr = text.parse().ok()?;
        let known = matches!(full.scheme(), "nats" | "tls") && !full.host().is_empty();
        if text.is_empty() || !known {
            return None;
        }
        // A password without a user isn't a login.
        let login = match (full.username(), full.password()) {
            (None, None) => None,
            (None, Some(_)) => return None,
            (Some(token), None) => Some(Login::Token(decoded(token)?)),
            (Some(name), Some(password)) => Some(Login::User {
                name: decoded(name)?,
                password: decoded(password)?,
            }),
        };
        let mut url = full.into_inner();
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
        let address = async_nats::ServerAddr::from_url(url).ok()?;
        Some(Self { address, login })
    }
}

/// Undoes percent-encoding. None if that isn't text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, address: &str, login: Option<&Login>) {
        let server = NatsServer::parse(text).unwrap();
        assert_eq!(server.address.as_url_str(), address, "{text}");
        assert!(server.login.as_ref() == login, "{text}: {:?}", server.login);
        let shown = format!("{server:?}");
        for secret in ["s3cret", "zoe", "p@ss", "t0ken"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    fn user(name: &str, password: &str) -> Login {
        Login::User {
            name: name.to_owned(),
            password: password.to_owned(),
        }
    }

    #[test]
    fn what_stands_before_the_host_is_the_login_and_not_the_address() {
        check("a", "nats://a", None);
        check("nats://a:4222", "nats://a:4222", None);
        check(
            "nats://zoe:s3cret@a",
            "nats://a",
            Some(&user("zoe", "s3cret")),
        );
        check("zoe:s3cret@a:1", "nats://a:1", Some(&user("zoe", "s3cret")));
        check(
            "tls://zoe:p%40ss%3A%2C@a",
            "tls://a",
            Some(&user("zoe", "p@ss:,")),
        );
        check(
            "nats://%C3%A4:s3cret@a",
            "nats://a",
            Some(&user("ä", "s3cret")),
        );
        check(
            "nats://t0ken@a",
            "nats://a",
            Some(&Login::Token("t0ken".to_owned())),
        );
        check(
            "nats://t%2Fk@[::1]:9",
            "nats://[::1]:9",
            Some(&Login::Token("t/k".to_owned())),
        );
        for wrong in [
            "",
            "nats://",
            "nats://:s3cret@a",
            "nats://%ff:x@a",
            "nats://%zz:x@a",
            "http://a",
        ] {
            assert_eq!(NatsServer::parse(wrong), None, "{wrong}");
        }
    }
}
