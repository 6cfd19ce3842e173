//! Connecting: with TLS and credentials as usual, and without giving up.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use tokio::sync::watch;

use crate::config::NatsConfig;

/// A link that is half open is noticed after two unanswered pings.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The longest pause between two attempts to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A connection that can't be made, whether the broker is there or not.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The credentials file can't be used.
    #[error("NATS_CREDS: {} cannot be used", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The settings can't be used.
    #[error("NATS cannot be connected to")]
    Connect(#[source] async_nats::ConnectError),
}

/// Connects in the background: the client is usable at once, whether the broker is there or not.
///
/// # Errors
/// If a file of credentials or certificates can't be used.
pub async fn connect(config: &NatsConfig) -> Result<Client, ConnectError> {
    connect_with(config, |_| ()).await
}

/// Connects like [`connect`], and tells of every event of the connection.
///
/// # Errors
/// If a file of credentials or certificates can't be used.
pub(super) async fn connect_with(
    config: &NatsConfig,
    on_event: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<Client, ConnectError> {
    let mut options = ConnectOptions::new()
        .name("orderd")
        .retry_on_initial_connect()
        .ping_interval(PING_INTERVAL)
        .connection_timeout(Duration::from_secs(5))
        .request_timeout(Some(Duration::from_secs(5)))
        .reconnect_delay_callback(|attempts| {
            let exponent = u32::try_from(attempts.min(6)).unwrap_or(6);
            (Duration::from_millis(50) * 2_u32.pow(exponent)).min(RECONNECT_PAUSE_MAX)
        })
        .event_callback(move |event| {
            on_event(&event);
            async move {
                match event {
                    Event::Connected => tracing::debug!("connected to NATS"),
                    // It reconnects for ever: only we end it.
                    Event::Closed => tracing::debug!("the connection to NATS is closed"),
                    Event::ClientError(_) | Event::ServerError(_) => {
                        tracing::warn!(event = %event, "NATS reports an error");
                    }
                    other => tracing::warn!(event = %other, "the connection to NATS changed"),
                }
            }
        });
    if let Some(path) = &config.creds {
        options =
            options
                .credentials_file(path)
                .await
                .map_err(|source| ConnectError::Credentials {
                    path: path.clone(),
                    source,
                })?;
    }
    if let Some(path) = &config.ca {
        options = options.add_root_certificates(path.clone());
    }
    if let Some((cert, key)) = &config.identity {
        options = options.add_client_certificate(cert.clone(), key.clone());
    }
    options
        .connect(&config.servers[..])
        .await
        .map_err(ConnectError::Connect)
}

/// A connection that can be told to be gone for good: replies may end it.
#[derive(Debug)]
pub struct Link {
    client: Client,
    alive: watch::Receiver<()>,
}

impl Link {
    /// Connects like [`connect`].
    ///
    /// # Errors
    /// If a file of credentials or certificates can't be used.
    pub async fn new(config: &NatsConfig) -> Result<Self, ConnectError> {
        let (holder, alive) = watch::channel(());
        let client = connect_with(config, move |_| {
            // Held by the connection's task, and dropped with it.
            let _ = &holder;
        });
        Ok(Self {
            client: client.await?,
            alive,
        })
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the connection's task has ended: nothing is sent over it any more.
    pub fn is_gone(&self) -> bool {
        self.alive.has_changed().is_err()
    }
}
