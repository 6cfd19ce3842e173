//! `orderd token`: adds a token to the tokens file. It needs neither database nor broker.

use std::io::Write as _;

use anyhow::Result;

use super::Finished;
use crate::config::Config;
use crate::telemetry;
use crate::tokens::{self, IssueError, NewToken};

/// Adds a token to the tokens file; its secret is the only output.
///
/// # Errors
/// If no tokens file is set, if it can't be understood or written, or if the secret can't be printed.
pub fn carry_out(config: &Config, new: &NewToken) -> Result<Finished> {
    let path = config.tokens_file.as_deref().ok_or(tokens::Error::NotSet)?;
    let issued = tokens::issue(path, new, |secret| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{secret}").and_then(|()| out.flush())
    });
    issued.map_err(|error| match error {
        IssueError::File(error) => anyhow::Error::from(error),
        other => other.into(),
    })?;
    let scopes: Vec<&str> = new.scopes.iter().map(|scope| scope.as_str()).collect();
    telemetry::say(&format!(
        "orderd: {} may {} as of now; its secret is shown only this once\n",
        new.name,
        scopes.join(", ")
    ));
    Ok(Finished::done(String::new()))
}
