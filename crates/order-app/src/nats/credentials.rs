//! Logs in to the broker with what the URLs contain, and with a credentials file that is read at every
//! connect.
//!
//! Short-lived credentials are rotated while the service runs: the server ends the connection when
//! they expire, and the next connection must use the current content of the file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_nats::{Auth, AuthError, ConnectOptions, ReconnectToServer, Server};
use nkeys::KeyPair;

use crate::config::{Login, NatsConfig, NatsServer};
use crate::lock::lock;

/// Why a credentials file can't be used. It never contains anything from the file.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It can't be read.
    #[error("it can't be read")]
    Read(#[source] std::io::Error),
    /// It doesn't have the format that `nsc` writes.
    #[error("it doesn't hold a JWT and a seed, each between two lines of dashes")]
    Form,
    /// Its seed can't sign.
    #[error("its seed can't be used")]
    Seed(#[source] nkeys::error::Error),
}

/// The content of a credentials file.
struct Credentials {
    jwt: String,
    key: KeyPair,
}

/// The options of a connection that logs in as `config` says, at each connect with the current credentials.
pub(super) async fn options(config: &NatsConfig) -> Result<ConnectOptions, CredentialsError> {
    if let Some(path) = &config.creds {
        // A file that can't be used at the start is a mistake to report at once.
        read(path).await?;
    }
    let logins = Logins::of(&config.servers);
    if logins.is_empty() && config.creds.is_none() {
        return Ok(ConnectOptions::new());
    }
    let (creds, turn) = (config.creds.clone(), logins.clone());
    let options = ConnectOptions::with_auth_callback(move |nonce| {
        let (creds, login) = (creds.clone(), turn.now());
        async move { auth(login, creds, &nonce).await }
    });
    if logins.all_alike() {
        return Ok(options);
    }
    // async-nats doesn't tell the callback which server it logs in to, so the server is chosen
    // here.
    Ok(options.reconnect_to_server_callback(move |servers, _| {
        let chosen = logins.choose(&servers);
        async move { chosen }
    }))
}

async fn auth(
    login: Option<Login>,
    creds: Option<PathBuf>,
    nonce: &[u8],
) -> Result<Auth, AuthError> {
    let mut auth = Auth::new();
    match login {
        Some(Login::User { name, password }) => {
            auth.username = Some(name);
            auth.password = Some(password);
        }
        Some(Login::Token(token)) => auth.token = Some(token),
        None => {}
    }
    // A server uses only one of the two: a JWT if it trusts an operator.
    if let Some(path) = creds {
        let signed = async {
            let Credentials { jwt, key } = read(&path).await?;
            let signature = key.sign(nonce).map_err(CredentialsError::Seed)?;
            Ok::<_, CredentialsError>((jwt, signature))
        };
        let (jwt, signature) = signed.await.map_err(|error| {
            tracing::warn!(
                file = %path.display(),
                error = %crate::telemetry::chain(&error),
                "credentials file of NATS_CREDS not usable; it is read again at the next attempt"
            );
            AuthError::new("NATS_CREDS cannot be used")
        })?;
        auth.jwt = Some(jwt);
        auth.signature = Some(signature);
    }
    Ok(auth)
}

async fn read(path: &Path) -> Result<Credentials, CredentialsError> {
    let text = tokio::fs::read_to_string(path).await;
    parse(&text.map_err(CredentialsError::Read)?)
}

/// The first two lines that are enclosed by lines of dashes: the JWT and the seed.
fn parse(text: &str) -> Result<Credentials, CredentialsError> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_dashes = |line: &str| line.len() > 6 && line.starts_with("---") && line.ends_with("---");
    let mut held = lines.windows(3).filter_map(|three| match three {
        [above, line, below] if is_dashes(above) && is_dashes(below) && !line.is_empty() => {
            Some(*line)
        }
        _ => None,
    });
    let (Some(jwt), Some(seed)) = (held.next(), held.next()) else {
        return Err(CredentialsError::Form);
    };
    Ok(Credentials {
        jwt: jwt.to_owned(),
        key: KeyPair::from_seed(seed).map_err(CredentialsError::Seed)?,
    })
}

/// The logins of the servers, and which one the next connection is made with.
#[derive(Debug, Clone)]
struct Logins {
    servers: Arc<[NatsServer]>,
    /// For servers whose URL has no login, and for those that the cluster announced.
    usual: Option<Login>,
    next: Arc<Mutex<Option<Login>>>,
}

impl Logins {
    fn of(servers: &[NatsServer]) -> Self {
        let usual = servers.iter().find_map(|server| server.login.clone());
        Self {
            servers: servers.into(),
            next: Arc::new(Mutex::new(usual.clone())),
            usual,
        }
    }

    fn is_empty(&self) -> bool {
        self.usual.is_none()
    }

    fn all_alike(&self) -> bool {
        let mut logins = self.servers.iter().map(|server| &server.login);
        logins.all(|login| login.is_none() || *login == self.usual)
    }

    fn now(&self) -> Option<Login> {
        let next = lock(&self.next);
        next.clone()
    }

    /// Chooses a server with the fewest failures so far, and sets its login for the next
    /// connection.
    fn choose(&self, known: &[Server]) -> Option<ReconnectToServer> {
        let least = known.iter().map(|server| server.failed_attempts).min()?;
        let best: Vec<&Server> = known
            .iter()
            .filter(|server| server.failed_attempts == least)
            .collect();
        let chosen = best.get(rand::random_range(0..best.len()))?;
        let own = self
            .servers
            .iter()
            .find(|server| server.address == chosen.addr);
        let login = own.and_then(|server| server.login.clone());
        *lock(&self.next) = login.or_else(|| self.usual.clone());
        Some(ReconnectToServer {
            addr: chosen.addr.clone(),
            delay: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> Option<(String, String)> {
        let credentials = parse(text).ok()?;
        Some((credentials.jwt, credentials.key.seed().unwrap()))
    }

    #[test]
    fn a_credentials_file_is_read_as_nsc_writes_it() {
        let seed = KeyPair::new_user().seed().unwrap();
        let file = format!(
            "-----BEGIN NATS USER JWT-----\nab.c-d_e.f=\n------END NATS USER JWT------\n\n\
             ***** IMPORTANT *****\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n\n*****\n"
        );
        let expected = Some(("ab.c-d_e.f=".to_owned(), seed.clone()));
        assert_eq!(held(&file), expected);
        assert_eq!(held(&file.replace('\n', "\r\n")), expected);
        assert_eq!(held(file.trim_end()), expected);
        for cut in [
            String::new(),
            "-----BEGIN NATS USER JWT-----".to_owned(),
            file[..file.len() / 2].to_owned(),
            file.replace(&seed, ""),
            file.replace(&seed, "SUNONSENSE"),
        ] {
            assert_eq!(held(&cut), None, "{cut}");
        }
        let error = parse(&file.replace(&seed, "SUNONSENSE")).err().unwrap();
        assert!(!crate::telemetry::chain(&error).contains("NONSENSE"));
    }
}
