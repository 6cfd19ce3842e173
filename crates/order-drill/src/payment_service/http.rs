//! The way in over HTTP: a POST to any path.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::Error;
use super::desk::{Desk, FOLLOWED, Reply};

/// Listens; what is returned answers until it is dropped.
pub(super) async fn serve(
    desk: Arc<Desk>,
    address: SocketAddr,
) -> Result<(String, impl Future<Output = ()> + Send + use<>), Error> {
    let fault = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(fault)?;
    let url = format!("http://{}/query", listener.local_addr().map_err(fault)?);
    let serving = async move {
        let mut connections = JoinSet::new();
        loop {
            // A connection that failed before it was accepted is the caller's trouble.
            if let Ok((connection, _)) = listener.accept().await {
                connections.spawn(talk(Arc::clone(&desk), connection));
            }
            while connections.try_join_next().is_some() {}
        }
    };
    Ok((url, serving))
}

async fn talk(desk: Arc<Desk>, connection: TcpStream) {
    let _ = connection.set_nodelay(true);
    let service = service_fn(move |request| answer(Arc::clone(&desk), request));
    // Ends with an error where a fault wants it to.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(connection), service)
        .await;
}

async fn answer(desk: Arc<Desk>, request: Request<Incoming>) -> io::Result<Response<Text>> {
    if request.uri().path() == FOLLOWED {
        desk.follow();
    }
    let question = read(request).await;
    match desk.answer(question).await {
        Reply::Whole {
            status,
            headers,
            body,
        } => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Text::whole(body)).map_err(io::Error::other)
        }
        Reply::CutOff { body } => Ok(Response::new(Text::cut_off(body))),
        Reply::HangUp => Err(io::Error::other("hung up on purpose")),
        Reply::Silent => pending().await,
    }
}

async fn read(request: Request<Incoming>) -> Result<Vec<u8>, String> {
    if request.method() != Method::POST {
        return Err(format!("{}, not POST", request.method()));
    }
    let kind = request.headers().get(CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        return Err(format!("content-type {kind:?}, not application/json"));
    }
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| error.to_string())?;
        bytes.extend(frame.into_data().unwrap_or_default());
    }
    Ok(bytes)
}

/// A body in one piece, and perhaps the end of the connection after it.
struct Text {
    bytes: Option<Bytes>,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Good,
    /// Only what was sent before the end can be seen, and hyper sends while it waits for more.
    CutOffAfterAPause,
    CutOff,
}

impl Text {
    fn whole(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Some(bytes.into()),
            end: End::Good,
        }
    }

    fn cut_off(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Some(bytes.into()),
            end: End::CutOffAfterAPause,
        }
    }
}

impl Body for Text {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.end {
            End::Good => Poll::Ready(None),
            End::CutOffAfterAPause => {
                self.end = End::CutOff;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            End::CutOff => Poll::Ready(Some(Err(io::Error::other("cut off on purpose")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end == End::Good && self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.bytes {
            Some(bytes) if self.end == End::Good => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
