//! A connection whose peer has to take in its answers in time.
//!
//! hyper has a time-out for what comes in and none for what goes out: who reads a byte now and
//! then would keep an answer and its connection for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The time runs from the first write that has to wait until all is written, whatever trickles
/// through meanwhile.
#[derive(Debug)]
pub(crate) struct Patient {
    stream: TcpStream,
    limit: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(crate) fn new(stream: TcpStream, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            deadline: None,
        }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() && self.deadline.is_none() {
            return wrote;
        }
        let limit = self.limit;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        wrote
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written all it had.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const LARGE: usize = 64 * 1024 * 1024;

    async fn pair(limit: Duration) -> (Patient, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap());
        let (accepted, peer) = tokio::join!(listener.accept(), peer);
        (Patient::new(accepted.unwrap().0, limit), peer.unwrap())
    }

    #[tokio::test]
    async fn a_peer_who_takes_nothing_in_is_given_up() {
        let (mut patient, _peer) = pair(Duration::from_millis(100)).await;
        let error = patient.write_all(&vec![0; LARGE]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_who_trickles_is_given_up_too() {
        let (mut patient, mut peer) = pair(Duration::from_millis(300)).await;
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            let mut some = vec![0; 256 * 1024];
            while peer.read(&mut some).await.is_ok_and(|read| read > 0) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let error = patient.write_all(&vec![0; LARGE]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_was_taken_in_is_over() {
        let (mut patient, mut peer) = pair(Duration::from_millis(500)).await;
        for _ in 0..2 {
            let (wrote, read) = tokio::join!(
                async {
                    patient.write_all(&vec![0; 8 * 1024 * 1024]).await?;
                    patient.flush().await
                },
                async {
                    let mut all = vec![0; 8 * 1024 * 1024];
                    peer.read_exact(&mut all).await
                }
            );
            wrote.unwrap();
            read.unwrap();
            // Longer than the limit, from the first write on.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}
