//! `orderd audit`: checks every invariant.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{Exit, Finished};
use crate::app::open_store;
use crate::config::Config;

/// Reports what is broken, a line each.
///
/// # Errors
/// If the database can't be read.
pub async fn carry_out(config: &Config) -> Result<Finished> {
    let store = open_store(config)?;
    store
        .prepare(false)
        .await
        .context("the database cannot be audited")?;
    let findings = store.audit().await?;
    let mut text = String::new();
    for finding in &findings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{finding}");
    }
    let _ = writeln!(text, "{} finding(s)", findings.len());
    let exit = if findings.is_empty() {
        Exit::Done
    } else {
        Exit::Found
    };
    Ok(Finished { text, exit })
}
