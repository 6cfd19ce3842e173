//! The commands that do one thing and end. A file each, named after its command.

pub mod audit;
pub mod reconcile;
pub mod reconsume;
pub mod republish;
pub mod token;

use anyhow::Result;

use super::open_store;
use crate::config::Config;

/// What a command that came to its end has to report.
#[derive(Debug)]
pub struct Finished {
    /// What goes to standard output.
    pub text: String,
    /// The exit code.
    pub exit: Exit,
}

impl Finished {
    fn done(text: String) -> Self {
        Self {
            text,
            exit: Exit::Done,
        }
    }
}

/// How a command ended, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what it was asked for.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command line or a setting is wrong.
    WrongUsage = 2,
    /// It found something that needs a person.
    Found = 3,
}

/// `orderd migrate`: applies missing migrations.
///
/// # Errors
/// If the database can't be reached, or refuses a migration.
pub async fn migrate(config: &Config) -> Result<Finished> {
    config.database_url.check_file(true)?;
    let applied = open_store(config)?.prepare(true).await?;
    Ok(Finished::done(format!("{applied} migration(s) applied\n")))
}
