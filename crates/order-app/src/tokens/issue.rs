//! A new token: its line into the file, its secret to whoever asked.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rand::TryRng as _;
use rand::rngs::SysRng;

use super::{Error, Scope, SecretDigest, Token, TokenName, file, line};
use crate::clock;

/// What secrets start with, so that scanners for secrets find them: `orderd_[0-9a-f]{64}`.
const SECRET_PREFIX: &str = "orderd_";

/// What a new file starts with.
const HEADING: &str = "# Tokens of orderd, one a line: name, scopes, expiry (or never), digest of the secret.\n\
                       # Remove a line and its token is worth nothing within seconds.\n";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Who it is for.
    pub name: TokenName,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// For how long; none: until its line is removed.
    pub expires: Option<Duration>,
}

/// A token that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The file holds something else already.
    #[error(transparent)]
    File(#[from] Error),
    /// The system gave no random bits.
    #[error("the system gives no random bits")]
    Random(#[source] rand::rngs::SysError),
    /// The line could not be added.
    #[error("the token could not be added to {path}")]
    Append {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Adds a token to a file, which is made if it is missing, and returns the secret: nobody can
/// tell it again.
///
/// # Errors
/// If the file can't be understood or written.
pub fn issue(path: &Path, new: &NewToken) -> Result<String, IssueError> {
    let secret = random_secret()?;
    let now = clock::now();
    let token = Token {
        name: new.name.clone(),
        scopes: new.scopes.clone(),
        expires: new.expires.map(|after| now + after),
        digest: SecretDigest::of(secret.as_bytes()),
    };
    append(path, &line::format(&token)).map_err(|error| match error {
        AppendError::File(error) => IssueError::File(error),
        AppendError::Io(source) => IssueError::Append {
            path: path.display().to_string(),
            source,
        },
    })?;
    Ok(secret)
}

fn random_secret() -> Result<String, IssueError> {
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(IssueError::Random)?;
    let mut secret = SECRET_PREFIX.to_owned();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(secret, "{byte:02x}");
    }
    Ok(secret)
}

enum AppendError {
    File(Error),
    Io(io::Error),
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// One write at the end of the file: who reads it meanwhile sees the whole line or none of it.
fn append(path: &Path, line: &str) -> Result<(), AppendError> {
    let is_new = !path.try_exists()?;
    let mut file = OpenOptions::new()
        .append(true)
        .read(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    // Among those who add lines; the service only reads.
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
    let written = file.write(text.as_bytes())?;
    if written < text.len() {
        // Half a line would be in the way of all that follow.
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
