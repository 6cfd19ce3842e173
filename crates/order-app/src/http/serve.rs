//! The accept loop.
//!
//! A loop of our own because axum's has no time-out for headers, no cap on connections and no end
//! to its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::patient::Patient;
use crate::open_files;

/// How long a connection may take to send the head of a request, and may stay idle before it.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of a request's head at most; more are answered with 431.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// How long a peer may take to take in an answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
/// Connections at most; more wait in the listener's backlog. Far more than callers need, so that a
/// thousand slow ones are in nobody's way.
const CONNECTIONS_MAX: usize = 4096;
/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 1024;
/// Bytes of answers that the system keeps for a connection. Left to itself it takes megabytes off our
/// hands for a peer that reads nothing, and a thousand of those keep everybody waiting.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;
/// Files that are left to databases, broker and logs.
const OTHER_FILES: usize = 256;
/// How long requests may go on after the shutdown began.
const DRAIN_DEADLINE: Duration = Duration::from_secs(10);
/// How long to wait when the system has no sockets left; connections that end give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Binds an address to be served.
///
/// # Errors
/// If it can't be had.
pub fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A successor takes over while connections of its predecessor still end.
    socket.set_reuseaddr(true)?;
    // What is accepted inherits it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// Serves until `shutdown`, then lets requests in hand finish, but not for ever.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
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
    drop(listener);

    let drained = tokio::time::timeout(DRAIN_DEADLINE, async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    });
    if drained.await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "connections are cut at the deadline"
        );
        connections.shutdown().await;
    }
}

/// As many connections as there may be files for.
fn connections_max() -> usize {
    let files = open_files::raise_to(CONNECTIONS_MAX + OTHER_FILES);
    let connections = files.saturating_sub(OTHER_FILES);
    if connections >= CONNECTIONS_MAX {
        return CONNECTIONS_MAX;
    }
    // With fewer files than all that, half of them.
    let connections = connections.max(files / 2);
    tracing::warn!(
        files,
        connections,
        "the limit of open files is low (ulimit -n, LimitNOFILE): fewer connections are served"
    );
    connections
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended badly");
    }
}

/// The next connection, when there is room for it. It never gives up: what fails is tried again
/// after a pause, so that a lack of sockets neither ends the service nor keeps a core busy.
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
            // This one connection was gone before it was taken.
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "connections can't be accepted");
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
    let peer = stream.peer_addr().ok();
    // Answers are small and written at once: waiting for more would only delay them.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .max_buf_size(HEADER_BYTES_MAX);
    let stream = Patient::new(stream, ANSWER_DEADLINE);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        log_end(peer, &error);
    }
}

/// What a peer does to its own connection is its business.
fn log_end(peer: Option<SocketAddr>, error: &hyper::Error) {
    tracing::debug!(?peer, %error, "a connection ended early");
}
