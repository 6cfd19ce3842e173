//! Connects with TLS and credentials, and never gives up.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ClientError, Event, ServerError};
use tokio::sync::watch;

use super::credentials::{self, CredentialsError};
use super::refusals::Refusals;
use super::replies::Replies;
use crate::config::NatsConfig;

/// A half-open connection is noticed after two unanswered pings.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The longest pause between two attempts to connect.
const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(10);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Why no connection can be made, whether or not the broker is reachable.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The credentials file can't be used.
    #[error("NATS_CREDS: {} cannot be used", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: CredentialsError,
    },
    /// The settings can't be used.
    #[error("NATS cannot be connected to")]
    Connect(#[source] async_nats::ConnectError),
}

/// Connects in the background: the client is usable at once, whether or not the broker is
/// reachable. Notes what the broker denies and whether replies can
/// arrive, and passes on every event of the connection.
///
/// # Errors
/// If a file of credentials or certificates can't be used.
pub(super) async fn connect_with(
    config: &NatsConfig,
    refusals: &Refusals,
    replies: &Replies,
    on_event: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<Client, ConnectError> {
    let options = credentials::options(config).await;
    let (refusals, replies) = (refusals.clone(), replies.clone());
    let mut options = options
        .map_err(|source| ConnectError::Credentials {
            path: config.creds.clone().unwrap_or_default(),
            source,
        })?
        .name("orderd")
        .retry_on_initial_connect()
        .ping_interval(PING_INTERVAL)
        .connection_timeout(Duration::from_secs(5))
        .request_timeout(Some(Duration::from_secs(5)))
        .reconnect_delay_callback(reconnect_pause)
        .event_callback(move |event| {
            on_event(&event);
            observe(&event, &refusals, &replies);
            async {}
        });
    if let Some(path) = &config.ca {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((cert, key)) = &config.identity {
        options = options.add_client_certificate(cert.clone(), key.clone());
    }
    let servers: Vec<async_nats::ServerAddr> = config
        .servers
        .iter()
        .map(|server| server.address.clone())
        .collect();
    options
        .connect(&servers[..])
        .await
        .map_err(ConnectError::Connect)
}

/// The pause before an attempt to connect. The first attempt follows nearly at once, at the start too; the pause before it
/// keeps a server that accepts and drops connections from occupying a core.
fn reconnect_pause(attempts: usize) -> Duration {
    match u32::try_from(attempts) {
        Ok(0 | 1) => RECONNECT_PAUSE_MIN,
        Ok(attempts @ 2..=6) => {
            (Duration::from_millis(50) * 2_u32.pow(attempts)).min(RECONNECT_PAUSE_MAX)
        }
        _ => RECONNECT_PAUSE_MAX,
    }
}

fn observe(event: &Event, refusals: &Refusals, replies: &Replies) {
    match event {
        Event::Connected => {
            replies.note_connected();
            refusals.note_connected();
            tracing::debug!("NATS connected");
        }
        // It reconnects for ever: only this process ends it.
        Event::Closed => tracing::debug!("NATS connection closed"),
        Event::ServerError(ServerError::Other(reported)) => {
            replies.note(reported);
            // A whole batch may be denied: only the first report is a warning.
            if refusals.note(reported) == Some(false) {
                tracing::debug!(event = %event, "NATS reports an error");
            } else {
                tracing::warn!(event = %event, "NATS reports an error");
            }
        }
        Event::ClientError(ClientError::Other(why)) => {
            refusals.note_unconnected(why);
            tracing::warn!(event = %event, "NATS not reachable; connecting is tried again");
        }
        Event::ClientError(_) | Event::ServerError(_) => {
            tracing::warn!(event = %event, "NATS reports an error");
        }
        Event::Disconnected | Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) => {
            tracing::warn!(event = %event, "NATS connection changed");
        }
    }
}

/// A connection whose end can be detected: a reply may end it for good.
#[derive(Debug)]
pub struct Link {
    client: Client,
    alive: watch::Receiver<()>,
    refusals: Refusals,
    replies: Replies,
}

impl Link {
    /// Connects in the background.
    ///
    /// # Errors
    /// If a file of credentials or certificates can't be used.
    pub async fn new(config: &NatsConfig) -> Result<Self, ConnectError> {
        let (holder, alive) = watch::channel(());
        // Separate: a denial on this connection doesn't affect payment events.
        let refusals = Refusals::default();
        let replies = Replies::default();
        let client = connect_with(config, &refusals, &replies, move |_| {
            // Held by the connection's task, and dropped with it.
            let _ = &holder;
        });
        Ok(Self {
            client: client.await?,
            alive,
            refusals,
            replies,
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What the broker denies to this connection.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Whether replies arrive over it.
    pub fn replies(&self) -> &Replies {
        &self.replies
    }

    /// Whether the connection's task has ended: nothing is sent over it any more.
    pub fn is_gone(&self) -> bool {
        self.alive.has_changed().is_err()
    }
}
