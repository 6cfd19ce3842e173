//! The peer of a connection, for the handlers of its requests.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::net::TcpStream;

/// An extension of every request of a connection. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    stream: Weak<TcpStream>,
    sending: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn of(stream: &Arc<TcpStream>) -> Self {
        Self {
            stream: Arc::downgrade(stream),
            sending: Arc::default(),
        }
    }

    /// Records that the peer is still sending a body that isn't read.
    pub(crate) fn is_still_sending(&self) {
        self.sending.store(true, Ordering::Relaxed);
    }

    /// Whether that was recorded.
    pub(crate) fn was_still_sending(&self) -> bool {
        self.sending.load(Ordering::Relaxed)
    }

    /// Ends when the peer has closed its side. It may be gone or still wait for the answer; the two
    /// can't be distinguished. To be called when its request has been read.
    pub(crate) async fn hung_up(&self) {
        // Tests have no connection, so it never closes.
        let Some(stream) = self.stream.upgrade() else {
            return std::future::pending().await;
        };
        match stream.peek(&mut [0]).await {
            Ok(0) | Err(_) => {}
            // The next request was pipelined: the peer is still there.
            Ok(_) => std::future::pending().await,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}
