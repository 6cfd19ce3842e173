//! Reads the tokens file again when it changes.
//!
//! The whole file is compared twice a second: it is small, and its content shows what times and
//! inode numbers don't, such as an edit in place within a tick of the clock, or a symbolic link
//! that points to another file.

use std::time::Duration;

use metrics::gauge;
use tokio_util::sync::CancellationToken;

use super::{Tokens, file};
use crate::pause::pause;

const CHECK_EVERY: Duration = Duration::from_millis(500);

const BROKEN: &str = "orderd_tokens_file_broken";

/// Describes the metrics and shows them from the start, at zero.
pub fn describe_metrics() {
    metrics::describe_gauge!(
        BROKEN,
        "1 while the tokens file can't be understood and the tokens read before stay valid"
    );
    gauge!(BROKEN).set(0.0);
}

/// Checks the file until `stop`.
pub(crate) async fn reload_when_changed(tokens: Tokens, stop: CancellationToken) {
    let mut reloader = Reloader::new(tokens);
    while pause(&stop, CHECK_EVERY).await {
        // Reading may block, for example on a network file system.
        let looked = tokio::task::spawn_blocking(move || {
            reloader.check();
            reloader
        });
        match looked.await {
            Ok(back) => reloader = back,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// What a check of the file found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is unchanged.
    Same,
    /// It changed; the next check shows whether its writer is done.
    Unsettled,
    /// It changed and is valid now.
    Taken,
    /// It changed and can't be understood; the tokens read before stay valid.
    Broken,
}

/// The file as it was last checked.
#[derive(Debug)]
pub(super) struct Reloader {
    tokens: Tokens,
    known: file::Content,
    unsettled: Option<file::Content>,
}

impl Reloader {
    pub(super) fn new(tokens: Tokens) -> Self {
        let known = tokens.0.first_read.clone();
        Self {
            tokens,
            known,
            unsettled: None,
        }
    }

    /// One check. A change counts when it is seen twice: an editor that empties the file before
    /// writing must not lock out every caller.
    pub(super) fn check(&mut self) -> Change {
        let content = file::read(&self.tokens.0.path);
        if content == self.known {
            self.unsettled = None;
            return Change::Same;
        }
        if self.unsettled.as_ref() != Some(&content) {
            self.unsettled = Some(content);
            return Change::Unsettled;
        }
        self.unsettled = None;
        let understood = file::understand(&self.tokens.0.path, &content);
        self.known = content;
        match understood {
            Ok(tokens) => {
                tracing::info!(tokens = tokens.len(), "tokens file read again");
                self.tokens.replace(tokens);
                gauge!(BROKEN).set(0.0);
                Change::Taken
            }
            Err(error) => {
                tracing::error!(%error, "tokens file is broken; the tokens read before stay valid");
                gauge!(BROKEN).set(1.0);
                Change::Broken
            }
        }
    }
}
