//! Connecting: with TLS and credentials as usual, and without giving up.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};

use crate::config::NatsConfig;

/// A link that is half open is noticed after two unanswered pings.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The longest pause between two attempts to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Connects in the background: the client is usable at once, whether the broker is there or not.
///
/// # Errors
/// If a file of credentials or certificates can't be used.
pub async fn connect(config: &NatsConfig) -> Result<Client, anyhow::Error> {
    use anyhow::Context as _;

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
        .event_callback(|event| async move {
            match event {
                Event::Connected => tracing::info!("connected to NATS"),
                Event::ClientError(_) | Event::ServerError(_) => {
                    tracing::warn!(event = %event, "NATS reports an error");
                }
                other => tracing::warn!(event = %other, "the connection to NATS changed"),
            }
        });
    if let Some(path) = &config.creds {
        options = options
            .credentials_file(path)
            .await
            .with_context(|| format!("NATS_CREDS: {} cannot be used", path.display()))?;
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
        .context("NATS cannot be connected to")
}
