//! Reads the tokens file again when it changes.
//!
//! The whole file, twice a second: it is small, and its content tells what times and inode numbers
//! don't: an edit in place within a tick of the clock, a symbolic link that leads elsewhere.

use std::time::Duration;

use metrics::gauge;
use tokio_util::sync::CancellationToken;

use super::{Tokens, file};

const LOOK_EVERY: Duration = Duration::from_millis(500);

const BROKEN: &str = "orderd_tokens_file_broken";

/// Describes the metrics and shows them from the start, at zero.
pub fn describe_metrics() {
    metrics::describe_gauge!(
        BROKEN,
        "1 while the tokens file can't be understood and the tokens before it hold"
    );
    gauge!(BROKEN).set(0.0);
}

/// Looks at the file until `stop`.
pub(crate) async fn watch(tokens: Tokens, stop: CancellationToken) {
    let mut watcher = Watcher::new(tokens);
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => return,
        }
        // A file on a network may take its time.
        let looked = tokio::task::spawn_blocking(move || {
            watcher.look();
            watcher
        });
        match looked.await {
            Ok(back) => watcher = back,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// What a look at the file led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It is as it was.
    Same,
    /// It changed; the next look tells whether its writer is done.
    Unsettled,
    /// It changed and holds now.
    Taken,
    /// It changed and can't be understood; what held before still does.
    Broken,
}

/// The file as it was last looked at.
#[derive(Debug)]
pub(super) struct Watcher {
    tokens: Tokens,
    known: file::Content,
    unsettled: Option<file::Content>,
}

impl Watcher {
    pub(super) fn new(tokens: Tokens) -> Self {
        let known = tokens.0.first_read.clone();
        Self {
            tokens,
            known,
            unsettled: None,
        }
    }

    /// One look. A change counts when it is seen twice: an editor that empties a file before it
    /// writes must not lock everybody out.
    pub(super) fn look(&mut self) -> Look {
        let content = file::read(&self.tokens.0.path);
        if content == self.known {
            self.unsettled = None;
            return Look::Same;
        }
        if self.unsettled.as_ref() != Some(&content) {
            self.unsettled = Some(content);
            return Look::Unsettled;
        }
        self.unsettled = None;
        let understood = file::understand(&self.tokens.0.path, &content);
        self.known = content;
        match understood {
            Ok(tokens) => {
                tracing::info!(tokens = tokens.len(), "the tokens file was read again");
                self.tokens.replace(tokens);
                gauge!(BROKEN).set(0.0);
                Look::Taken
            }
            Err(error) => {
                tracing::error!(%error, "the tokens file is broken; the tokens before it hold");
                gauge!(BROKEN).set(1.0);
                Look::Broken
            }
        }
    }
}
