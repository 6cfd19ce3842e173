//! Issues a token: adds its line to the file and returns its secret.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rand::TryRng as _;
use rand::rngs::SysRng;

use super::{Error, Scope, SecretDigest, Token, TokenName, file, line};
use crate::clock;

/// The prefix of secrets, so that secret scanners find them: `orderd_[0-9a-f]{64}`.
const SECRET_PREFIX: &str = "orderd_";

/// The beginning of a new file.
const HEADING: &str = "# Tokens of orderd, one a line: name, scopes, expiry (or never), digest of the secret.\n\
                       # Remove a line and its token is worth nothing within seconds.\n";

/// The token to issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The actor that the history will name.
    pub name: TokenName,
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// How long it is valid; `None`: until its line is removed.
    pub expires: Option<Duration>,
}

/// Why a token could not be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The file can't be understood.
    #[error(transparent)]
    File(#[from] Error),
    /// The system provided no random bits.
    #[error("the system provides no random bits")]
    Random(#[source] rand::rngs::SysError),
    /// The line could not be added.
    #[error("the token could not be added to {path}; if a secret was printed, it is not valid")]
    Append {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The secret could not be handed over, so nothing was added.
    #[error("the secret could not be written to standard output; no token was added")]
    HandOver(#[source] io::Error),
}

/// Adds a token to a file, which is created if it is missing. The secret can't be recovered later, so it is handed over
/// first; if that fails, nothing is added.
///
/// # Errors
/// If the file can't be understood or written, or the secret can't be handed over.
pub fn issue(
    path: &Path,
    new: &NewToken,
    hand_over: impl FnOnce(&str) -> io::Result<()>,
) -> Result<(), IssueError> {
    let secret = random_secret()?;
    let now = clock::now();
    let token = Token {
        name: new.name.clone(),
        scopes: new.scopes.clone(),
        expires: new.expires.map(|after| now + after),
        digest: SecretDigest::of(secret.as_bytes()),
    };
    let hand_over = || hand_over(&secret);
    append(path, &line::format(&token), hand_over).map_err(|error| match error {
        AppendError::File(error) => IssueError::File(error),
        AppendError::HandOver(error) => IssueError::HandOver(error),
        AppendError::Io(source) => IssueError::Append {
            path: path.display().to_string(),
            source,
        },
    })
}

fn random_secret() -> Result<String, IssueError> {
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(IssueError::Random)?;
    Ok(format!("{SECRET_PREFIX}{}", hex::encode(bytes)))
}

enum AppendError {
    File(Error),
    HandOver(io::Error),
    Io(io::Error),
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Appends the line with one write, so that a concurrent reader sees the whole line or nothing of
/// it.
fn append(
    path: &Path,
    line: &str,
    hand_over: impl FnOnce() -> io::Result<()>,
) -> Result<(), AppendError> {
    let is_new = !path.try_exists()?;
    let mut file = OpenOptions::new()
        .append(true)
        .read(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    // Locks out other calls of `orderd token`; the service only reads.
    file.lock()?;
    let content = file::read(path);
    file::understand(path, &content).map_err(AppendError::File)?;
    let content = content.unwrap_or_default();
    let before = match content.last() {
        None => HEADING,
        Some(b'\n') => "",
        Some(_) => "\n",
    };
    let text = format!("{before}{line}");
    hand_over().map_err(AppendError::HandOver)?;
    let written = file.write(text.as_bytes())?;
    if written < text.len() {
        // Half a line would corrupt the next one.
        file.set_len(content.len() as u64)?;
        return Err(io::Error::from(io::ErrorKind::StorageFull).into());
    }
    file.sync_all()?;
    if is_new {
        sync_folder_of(path)?;
    }
    Ok(())
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
