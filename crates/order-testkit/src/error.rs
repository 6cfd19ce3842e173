//! What can go wrong with a test's server.

use std::io;

/// A server that can't be started or controlled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server's programs aren't on this machine.
    #[error(
        "no {program} on this machine (searched: {searched}); install it with \
         `scripts/test servers`, or set {variable}"
    )]
    Missing {
        /// The program.
        program: &'static str,
        /// The places that were searched, in order.
        searched: String,
        /// The variable that can name its place.
        variable: &'static str,
    },
    /// A call to the operating system failed.
    #[error("cannot {doing}")]
    Io {
        /// What the call was for.
        doing: String,
        /// The cause.
        source: io::Error,
    },
    /// A program ended unexpectedly.
    #[error("{program} ended ({status}); its log ends with:\n{log}")]
    Ended {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: String,
        /// The last lines of its log.
        log: String,
    },
    /// A server runs but doesn't answer.
    #[error("{program} was not ready within {seconds} s; its log ends with:\n{log}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// The time that it had.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// The server has to run for this, but doesn't.
    #[error("{program} is not running")]
    NotRunning {
        /// The program.
        program: &'static str,
    },
    /// The server has to be started, but runs already.
    #[error("{program} is still running")]
    StillRunning {
        /// The program.
        program: &'static str,
    },
    /// The server isn't this kit's to control.
    #[error("the server that {variable} names can't be controlled by a test; unset the variable")]
    NotOurs {
        /// The variable.
        variable: &'static str,
    },
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// The error and its causes in one line, for a panic message.
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
