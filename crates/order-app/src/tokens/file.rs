//! The tokens file as a whole.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::{Token, line};

/// The most bytes of a tokens file; thousands of tokens fit.
const BYTES_MAX: u64 = 1024 * 1024;

/// Why a tokens file can't be used. It names lines and fields, never their content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It can't be read.
    #[error("the tokens file {path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A line can't be understood.
    #[error("line {number} of the tokens file {path}: {why}")]
    Line {
        /// The file.
        path: String,
        /// Which, from 1.
        number: usize,
        /// What is wrong with the line.
        why: String,
    },
    /// No tokens file is set.
    #[error("ORDERD_TOKENS_FILE is not set: it names the file that holds the tokens")]
    NotSet,
}

/// The content of a file, or why it can't be read, so that it can be compared with the previous
/// one.
pub(super) type Content = Result<Vec<u8>, String>;

pub(super) fn read(path: &Path) -> Content {
    read_whole(path).map_err(|error| error.to_string())
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it isn't a regular file"));
    }
    let mut content = Vec::new();
    File::open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    if content.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it has more than 1 MiB"));
    }
    Ok(content)
}

pub(super) fn understand(path: &Path, content: &Content) -> Result<Vec<Token>, Error> {
    let path = || path.display().to_string();
    let content = content.as_deref().map_err(|why| Error::Unreadable {
        path: path(),
        why: why.clone(),
    })?;
    let mut tokens: Vec<(usize, Token)> = Vec::new();
    for (index, bytes) in content.split(|byte| *byte == b'\n').enumerate() {
        let number = index + 1;
        let fault = |why: String| Error::Line {
            path: path(),
            number,
            why,
        };
        let text = std::str::from_utf8(bytes).map_err(|_| fault("it is not UTF-8".to_owned()))?;
        let Some(token) = line::parse(text).map_err(fault)? else {
            continue;
        };
        // It would be ambiguous which of the two lines applies to the secret.
        let twin = tokens
            .iter()
            .find(|(_, known)| known.digest == token.digest);
        if let Some((twin, _)) = twin {
            return Err(fault(format!("it has the digest of line {twin}")));
        }
        tokens.push((number, token));
    }
    Ok(tokens.into_iter().map(|(_, token)| token).collect())
}
