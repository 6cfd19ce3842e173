//! As much of an HTTP client as the bench needs: one kept connection, GET, bodies with a length. A real client would take
//! more of the machine than the service that is measured.

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A kept connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects.
    pub(crate) async fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            host: address.to_owned(),
            buffer: Vec::with_capacity(4096),
        })
    }

    /// Sends a GET and reads the answer.
    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        loop {
            if let Some((answer, length)) = parse(&self.buffer)? {
                ensure!(self.buffer.len() == length, "more than one answer came");
                return Ok(answer);
            }
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the connection was closed before the answer");
        }
    }
}

/// The answer, and how long it is, once all of it is there.
fn parse(bytes: &[u8]) -> Result<Option<(Answer, usize)>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).context("headers that aren't text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status
        .and_then(|status| status.parse().ok())
        .context("no status")?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    let body = end + 4;
    let whole = body + length.context("an answer without a length")?;
    Ok((bytes.len() >= whole).then(|| {
        let answer = Answer {
            status,
            body: bytes[body..whole].to_vec(),
        };
        (answer, whole)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello";
        for cut in 0..whole.len() {
            assert!(parse(&whole[..cut]).unwrap().is_none(), "{cut}");
        }
        let (answer, length) = parse(whole).unwrap().unwrap();
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (404, &b"hello"[..])
        );
        assert_eq!(length, whole.len());
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
