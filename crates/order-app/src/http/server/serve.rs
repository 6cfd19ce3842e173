//! The accept loop.
//!
//! Our own loop, because axum's has no timeout for headers, no limit of connections and no deadline
//! for its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::http::server::patient::Patient;
use crate::http::server::peer::Peer;
use crate::open_files;

/// How long a connection may take to send the head of a request, and may stay idle before it.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// The largest head of a request; a larger one is answered with 431.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How long a peer may take to read an answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// The maximum number of connections; further ones wait in the listener's backlog. Far more than
/// callers need, so that a thousand slow ones don't block others.
const CONNECTIONS_MAX: usize = 4096;
/// The maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Bytes of answers that the system keeps for a connection. By default it buffers megabytes for a
/// peer that reads nothing.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;
/// How long a peer may continue to send after it was answered, and how many bytes. Beyond that its
/// connection is reset, and the answer may be lost.
const LINGER_DEADLINE: Duration = Duration::from_secs(10);
const LINGER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Open files reserved for databases, broker and logs.
const OTHER_FILES: usize = 256;
/// How long requests may continue after the shutdown began.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);
/// The pause when the system has no sockets left; connections that end release some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Binds an address.
///
/// # Errors
/// If the address can't be bound.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A new process can bind while connections of its predecessor are still closing.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves until `shutdown`, then lets requests in progress finish within a deadline. Until they and the other parts of
/// the service (`others_stopped`) have finished, new connections are answered too, so that a probe learns that the
/// service is stopping.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
    others_stopped: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(connections_max()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            (stream, slot) = accept(&listener, &slots) => {
                connections.spawn(connection(stream, slot, router.clone(), shutdown.clone()));
            }
        }
    }
    let (mut late, end) = (JoinSet::new(), CancellationToken::new());
    let drained = tokio::time::timeout(DRAIN_DEADLINE, async {
        let finished = async {
            all_ended(&mut connections).await;
            others_stopped.cancelled().await;
        };
        tokio::pin!(finished);
        loop {
            tokio::select! {
                biased;
                () = &mut finished => break,
                Some(ended) = late.join_next() => report(ended),
                (stream, slot) = accept(&listener, &slots) => {
                    late.spawn(connection(stream, slot, router.clone(), end.clone()));
                }
            }
        }
        drop(listener);
        end.cancel();
        all_ended(&mut late).await;
    });
    if drained.await.is_err() {
        tracing::warn!(
            connections = connections.len() + late.len(),
            "connections closed at the shutdown deadline, before their requests ended"
        );
        connections.shutdown().await;
        late.shutdown().await;
    }
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

/// The number of connections that the limit of open files allows.
fn connections_max() -> usize {
    let files = open_files::raise_to(CONNECTIONS_MAX + OTHER_FILES);
    let connections = files.saturating_sub(OTHER_FILES);
    if connections >= CONNECTIONS_MAX {
        return CONNECTIONS_MAX;
    }
    // If files are scarce, connections get half of them.
    let connections = connections.max(files / 2);
    tracing::warn!(
        files,
        connections,
        "limit of open files is low, so fewer connections are served; raise it (ulimit -n, LimitNOFILE)"
    );
    connections
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task panicked");
    }
}

/// Accepts the next connection when there is room for it. It retries failures after a pause, so
/// that a lack of sockets neither ends the service nor keeps a core busy.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let slot = slots
        .clone()
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, slot),
            // Only this connection failed: its peer left before it was accepted.
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "connection not accepted; retrying after a pause");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

async fn connection(
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
    router: Router,
    shutdown: CancellationToken,
) {
    let address = stream.peer_addr().ok();
    // Answers are small and written at once, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .max_buf_size(HEADER_BYTES_MAX)
        // A peer that closes its sending side still waits for its answer.
        .half_close(true);
    let stream = Arc::new(stream);
    let peer = Peer::of(&stream);
    let answering = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        router.clone().oneshot(request)
    });
    let ended = {
        let patient = Patient::new(stream.clone(), ANSWER_DEADLINE);
        let connection = http.serve_connection(TokioIo::new(patient), answering);
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    match ended {
        Ok(()) => part(stream, peer.was_still_sending()).await,
        Err(error) => log_end(address, &error),
    }
}

/// Closes a connection whose answers are written: its own side first, the other one when the peer
/// has read them. Closing both while the peer is sending would reset the connection, and the answer
/// with it. Without a sign that something is under way there is nothing to wait for.
async fn part(stream: Arc<TcpStream>, mut is_sending: bool) {
    // Only a handler that watches the peer may still hold it.
    let Ok(mut stream) = Arc::try_unwrap(stream) else {
        return;
    };
    if stream.shutdown().await.is_err() {
        return;
    }
    let taken_in = async {
        let mut bytes = vec![0; 16 * 1024];
        let mut total = 0;
        while total < LINGER_BYTES_MAX {
            let read = if is_sending {
                stream.read(&mut bytes).await
            } else {
                stream.try_read(&mut bytes)
            };
            match read {
                Ok(0) | Err(_) => return,
                Ok(count) => total += count,
            }
            is_sending = true;
        }
    };
    // Whatever remains is dropped with the connection.
    let _ = tokio::time::timeout(LINGER_DEADLINE, taken_in).await;
}

/// Peers may end their connections at any time, so this isn't a warning.
fn log_end(peer: Option<SocketAddr>, error: &hyper::Error) {
    tracing::debug!(?peer, %error, "connection ended early");
}
