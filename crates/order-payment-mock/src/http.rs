//! Questions over HTTP: a POST to any path.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};

use super::desk::{Desk, FOLLOWED, Reply};

/// Listens; the returned future answers until it is dropped.
pub(super) async fn serve(
    desk: Arc<Desk>,
    address: SocketAddr,
) -> io::Result<(String, impl Future<Output = ()> + Send + use<>)> {
    let listener = TcpListener::bind(address).await?;
    let url = format!("http://{}/query", listener.local_addr()?);
    let serving = async move {
        let mut connections = JoinSet::new();
        loop {
            // A connection that fails before it is accepted is the caller's problem.
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
    // It ends with an error where a fault demands one.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(connection), service)
        .await;
}

async fn answer(
    desk: Arc<Desk>,
    request: Request<Incoming>,
) -> io::Result<Response<impl Body<Data = Bytes, Error: Into<BoxError>>>> {
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
            let body = Either::Left(Full::from(body));
            response.body(body).map_err(io::Error::other)
        }
        Reply::CutOff { body } => Ok(Response::new(Either::Right(cut_off(body)))),
        Reply::HangUp => Err(io::Error::other("hung up on purpose")),
        Reply::Silent => pending().await,
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends the bytes and then fails.
fn cut_off(bytes: Vec<u8>) -> impl Body<Data = Bytes, Error = io::Error> {
    let first = stream::once(future::ready(Ok(Frame::data(bytes.into()))));
    let end = stream::once(Box::pin(async {
        // hyper sends the bytes only while it waits for more.
        yield_now().await;
        Err(io::Error::other("cut off on purpose"))
    }));
    StreamBody::new(first.chain(end))
}

async fn read(request: Request<Incoming>) -> Result<Vec<u8>, String> {
    if request.method() != Method::POST {
        return Err(format!("{}, not POST", request.method()));
    }
    let kind = request.headers().get(CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        return Err(format!("content-type {kind:?}, not application/json"));
    }
    let body = request.into_body().collect().await;
    let body = body.map_err(|error| error.to_string())?;
    Ok(body.to_bytes().to_vec())
}
