//! Whether replies still arrive over a connection.
//!
//! All requests of a connection share one subscription, which the client makes once. A server whose
//! permissions deny it for a moment takes it away, reports that, and leaves the connection open. The client
//! subscribes again only when it connects again: until then no request is answered, whatever is permitted
//! by now. So a connection without replies is made again, slower each time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use metrics::counter;
use tokio::sync::watch;
use tokio::time::Instant;

use super::refusals::denied_subscription;
use crate::lock::lock;

/// Requests in a row that time out before the connection is suspected.
const UNANSWERED_MAX: u32 = 3;

const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause after the broker reported that the subscription is denied.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// The longest pause where the only sign of a fault is that requests are not answered.
const PAUSE_MAX_SILENT: Duration = Duration::from_mins(5);

/// How long a new connection is waited for.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// How often a connection was made again because replies didn't arrive.
const RENEWED: &str = "orderd_nats_reconnects_total";

/// Describes the metrics of connections.
pub fn describe_metrics() {
    metrics::describe_counter!(
        RENEWED,
        "How often a connection to NATS was made again because replies did not arrive over it"
    );
    counter!(RENEWED).increment(0);
}

/// What is known of the replies of one connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Replies(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    known: Mutex<Known>,
    connects: watch::Sender<u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            connects: watch::Sender::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    /// The broker denied the subscription since the last connect.
    is_denied: bool,
    /// Requests in a row that timed out.
    unanswered: u32,
    /// When the connection was made again last, since replies arrived.
    renewed: Option<Instant>,
    pause: Duration,
}

impl Replies {
    /// Notes that the connection was made.
    pub(super) fn note_connected(&self) {
        lock(&self.0.known).is_denied = false;
        self.0.connects.send_modify(|count| *count += 1);
    }

    /// Notes what the server reported, if it is about the subscription.
    pub(super) fn note(&self, reported: &str) {
        // The one for the answers to a pull has no wildcard, and lasts no longer than the pull.
        let is_shared = |subject: &str| subject.starts_with("_INBOX.") && subject.ends_with(".*");
        if denied_subscription(reported).is_some_and(is_shared) {
            lock(&self.0.known).is_denied = true;
        }
    }

    /// A reply arrived.
    pub fn arrived(&self) {
        let mut known = lock(&self.0.known);
        known.unanswered = 0;
        if known.renewed.take().is_some() {
            tracing::info!("NATS replies arrive again");
        }
    }

    /// A request timed out.
    pub fn missing(&self) {
        let mut known = lock(&self.0.known);
        known.unanswered = known.unanswered.saturating_add(1);
    }

    /// Makes the connection of `client` again if no replies arrive over it, and waits for that a moment.
    pub async fn renew(&self, client: &Client) {
        // A client that isn't connected is about to connect anyway.
        if client.connection_state() != State::Connected {
            return;
        }
        let Some(is_first) = lock(&self.0.known).due() else {
            return;
        };
        counter!(RENEWED).increment(1);
        if is_first {
            tracing::warn!("NATS connection made again: no replies arrived over it");
        } else {
            tracing::debug!("NATS connection made again, still without replies");
        }
        let mut connects = self.0.connects.subscribe();
        if client.force_reconnect().await.is_ok() {
            // What is sent before would be lost.
            let _ = tokio::time::timeout(CONNECT_WAIT, connects.changed()).await;
        }
    }
}

impl Known {
    /// Whether the connection is to be made again now; and whether that is the first time.
    fn due(&mut self) -> Option<bool> {
        if !self.is_denied && self.unanswered < UNANSWERED_MAX {
            return None;
        }
        let is_first = self.renewed.is_none();
        if self.renewed.is_some_and(|last| last.elapsed() < self.pause) {
            return None;
        }
        let max = if self.is_denied {
            PAUSE_MAX
        } else {
            PAUSE_MAX_SILENT
        };
        self.pause = if is_first {
            PAUSE_MIN
        } else {
            (self.pause * 2).min(max)
        };
        self.renewed = Some(Instant::now());
        self.unanswered = 0;
        Some(is_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIED: &str = "Permissions Violation for Subscription to \"_INBOX.a.b.*\" (sid \"0\")";

    fn due(replies: &Replies) -> Option<bool> {
        lock(&replies.0.known).due()
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_subscription_makes_the_connection_again_slower_each_time() {
        let replies = Replies::default();
        assert_eq!(due(&replies), None);
        replies.note(DENIED);
        assert_eq!(due(&replies), Some(true));
        for pause in [1, 2, 4, 8, 15, 15] {
            replies.note_connected();
            assert_eq!(due(&replies), None, "it may be permitted by now");
            replies.note(DENIED);
            tokio::time::advance(Duration::from_millis(pause * 1000 - 1)).await;
            assert_eq!(due(&replies), None, "{pause}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert_eq!(due(&replies), Some(false), "{pause}");
        }
        replies.note_connected();
        replies.arrived();
        replies.note(DENIED);
        assert_eq!(due(&replies), Some(true));
    }

    /// Reports can be lost: the client keeps a bounded number of them.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_replies_is_suspected_after_some() {
        let replies = Replies::default();
        for expected in [None, None, Some(true)] {
            replies.missing();
            assert_eq!(due(&replies), expected);
        }
        tokio::time::advance(PAUSE_MAX_SILENT).await;
        replies.missing();
        replies.missing();
        replies.arrived();
        replies.missing();
        assert_eq!(due(&replies), None);
    }

    #[test]
    fn other_reports_say_nothing_of_replies() {
        let replies = Replies::default();
        for other in [
            "Permissions Violation for Subscription to \"_INBOX.a\"",
            "Permissions Violation for Subscription to \"orders.*\"",
            "Permissions Violation for Publish to \"_INBOX.a.b.*\"",
            "Stale Connection",
        ] {
            replies.note(other);
            assert_eq!(due(&replies), None, "{other}");
        }
    }
}
