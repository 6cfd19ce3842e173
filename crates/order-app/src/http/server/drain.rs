//! Handles a body that was refused before all of it was read.
//!
//! Closing a connection with unread bytes resets it, and the peer may lose the answer. So the rest
//! of a refused body is read and discarded before the answer is sent, if that takes little time.
//! Otherwise the answer says that the connection closes, and `serve` lingers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::http::server::peer::Peer;

/// Bytes of a refused body that are read at most.
const BYTES_DRAINED_MAX: u64 = 1024 * 1024;

/// How long an answer waits for the rest of a body. Most senders have sent all of it by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// The layer.
pub(crate) async fn drain(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().cloned();
    // A client that expects `100 Continue` sends nothing before it.
    let asks = request.headers().contains_key(header::EXPECT);
    let (head, body) = request.into_parts();
    let kept = Lent(Arc::new(Mutex::new(Reading::of(body))));
    let lent = Body::new(Lent(kept.0.clone()));
    let mut response = next.run(Request::from_parts(head, lent)).await;
    let is_taken_in = if asks && !kept.reading(|reading| reading.is_begun) {
        kept.is_end_stream()
    } else {
        kept.take_in().await
    };
    if !is_taken_in {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
        if let Some(peer) = peer {
            peer.is_still_sending();
        }
    }
    response
}

/// A body that can still be read after the handler dropped it.
struct Lent(Arc<Mutex<Reading>>);

struct Reading {
    body: Body,
    /// Reading has begun.
    is_begun: bool,
    is_over: bool,
    bytes: u64,
}

impl Reading {
    fn of(body: Body) -> Self {
        Self {
            body,
            is_begun: false,
            is_over: false,
            bytes: 0,
        }
    }

    /// Whether its size is within the limit.
    fn is_bounded(&self) -> bool {
        self.bytes.saturating_add(self.body.size_hint().lower()) <= BYTES_DRAINED_MAX
    }
}

impl Lent {
    fn reading<T>(&self, look: impl FnOnce(&mut Reading) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads and discards the rest; returns whether that was all of it.
    async fn take_in(mut self) -> bool {
        let all = async {
            while self.reading(|reading| reading.is_bounded()) {
                let frame = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await;
                if frame.is_none_or(|frame| frame.is_err()) {
                    return true;
                }
            }
            false
        };
        tokio::time::timeout(PATIENCE, all).await.unwrap_or(false)
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.reading(|reading| {
            if reading.is_over {
                return Poll::Ready(None);
            }
            reading.is_begun = true;
            let polled = Pin::new(&mut reading.body).poll_frame(cx);
            match &polled {
                Poll::Ready(Some(Ok(frame))) => {
                    let length = frame.data_ref().map_or(0, Bytes::len);
                    reading.bytes = reading.bytes.saturating_add(length as u64);
                }
                // No more bytes follow an error.
                Poll::Ready(Some(Err(_)) | None) => reading.is_over = true,
                Poll::Pending => {}
            }
            polled
        })
    }

    fn is_end_stream(&self) -> bool {
        self.reading(|reading| reading.is_over || reading.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.reading(|reading| reading.body.size_hint())
    }
}
