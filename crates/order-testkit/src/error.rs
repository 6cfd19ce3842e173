//! What can go wrong while a test's server is started or disturbed.

use std::io;

/// Why there is no server, or why it could not be disturbed as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server's programs are not on this machine.
    #[error(
        "no {program} on this machine (searched: {searched}); `scripts/test servers` installs it, \
         or name it in {variable}"
    )]
    Missing {
        /// What was looked for.
        program: &'static str,
        /// Where it was looked for, in that order.
        searched: String,
        /// The variable that names it.
        variable: &'static str,
    },
    /// The operating system refused something.
    #[error("could not {doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A program ended when it should not have.
    #[error("{program} ended ({status}); its log ends with:\n{log}")]
    Ended {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// The server runs but does not answer.
    #[error("{program} did not get ready within {seconds} s; its log ends with:\n{log}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// It was to be disturbed, but is not running.
    #[error("{program} is not running")]
    NotRunning {
        /// The program.
        program: &'static str,
    },
    /// It was to be started, but is running.
    #[error("{program} is still running")]
    StillRunning {
        /// The program.
        program: &'static str,
    },
    /// It was to be disturbed, but belongs to somebody else.
    #[error("this server was named by {variable}; the kit disturbs only servers that it started")]
    NotOurs {
        /// The variable that named it.
        variable: &'static str,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// The sentence with its causes, for a panic message.
    pub(crate) fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
