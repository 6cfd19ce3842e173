//! A connection with a deadline for reading answers.
//!
//! hyper has timeouts only for incoming data: a peer that reads a byte now and then would keep an
//! answer and its connection for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The time runs from the first write that has to wait until everything is written, however slowly
/// it proceeds.
#[derive(Debug)]
pub(crate) struct Patient {
    /// Shared with `peer`, which neither reads nor writes.
    stream: Arc<TcpStream>,
    limit: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(crate) fn new(stream: Arc<TcpStream>, limit: Duration) -> Self {
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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Patient {
    fn poll_try<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: impl Fn(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let wrote = loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
            match attempt(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => break Poll::Ready(done),
            }
        };
        self.watch(cx, wrote)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(cx, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper flushes when it has written all it had. A socket keeps nothing back.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.deadline = None;
        Poll::Ready(Ok(()))
    }

    /// The owner of the stream closes it.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
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
        (
            Patient::new(Arc::new(accepted.unwrap().0), limit),
            peer.unwrap(),
        )
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (mut patient, _peer) = pair(Duration::from_millis(100)).await;
        let error = patient.write_all(&vec![0; LARGE]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_reads_too_slowly_is_given_up_too() {
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
