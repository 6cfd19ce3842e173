//! Writes standard error from a thread of its own.
//!
//! Its reader may be gone, may stop reading, or may have a full disk. The process must neither end
//! nor wait because of that: lines go into a bounded buffer, lines that don't fit are dropped and
//! counted, and lines that can't be written are lost.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use crate::lock::lock;

/// Bytes that may wait to be written; more are dropped, line by line.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// The capacity that the buffer keeps for the next lines.
const KEPT_BYTES: usize = 64 * 1024;

/// How long to wait before writing again when standard error is in non-blocking mode: another
/// process may have set that.
const AGAIN: Duration = Duration::from_millis(10);

const DROPPED: &str = "orderd_log_lines_dropped_total";

/// A buffer and the thread that empties it. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Output(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    is_writing: bool,
    /// Dropped lines that are not reported yet.
    dropped: u64,
}

/// The one output of this process. It is started when it is first used.
pub(super) fn standard_error() -> &'static Output {
    static OUTPUT: OnceLock<Output> = OnceLock::new();
    OUTPUT.get_or_init(|| Output::to(io::stderr()))
}

/// Describes the metrics and shows them from the start, at zero.
pub(super) fn describe_metrics() {
    metrics::describe_counter!(
        DROPPED,
        "Log lines dropped because standard error was not read fast enough, or lost in a failed write"
    );
    metrics::counter!(DROPPED).increment(0);
}

impl Output {
    /// Writes to this sink from now on, for as long as the process lives.
    fn to(sink: impl Write + Send + 'static) -> Self {
        let output = Self(Arc::default());
        let writing = output.clone();
        let thread = std::thread::Builder::new().name("log".to_owned());
        // If the thread can't be started, nothing is written.
        let _ = thread.spawn(move || writing.write_to(sink));
        output
    }

    /// Queues whole lines, or drops them if they don't fit.
    pub(super) fn say(&self, lines: &[u8]) {
        let fits = {
            let mut state = self.lock();
            let fits = state.waiting.len() + lines.len() <= WAITING_BYTES_MAX;
            if fits {
                state.waiting.extend_from_slice(lines);
            } else {
                state.dropped += 1;
            }
            self.0.changed.notify_all();
            fits
        };
        if !fits {
            metrics::counter!(DROPPED).increment(1);
        }
    }

    /// Waits until everything is written, up to a limit: the reader may be gone.
    pub(super) fn flush(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while state.is_writing || !state.waiting.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn write_to(&self, mut sink: impl Write) {
        let mut bytes = Vec::new();
        // Whether the last line went out in part.
        let mut is_torn = false;
        loop {
            let dropped = self.take(&mut bytes);
            if is_torn {
                bytes.insert(0, b'\n');
            }
            match write_all(&mut sink, &bytes) {
                Ok(()) => {
                    is_torn = false;
                    if dropped > 0 {
                        tracing::warn!(
                            dropped,
                            "log lines dropped: standard error was not read fast enough"
                        );
                    }
                }
                Err(written) => {
                    let (out, lost) = bytes.split_at(written);
                    is_torn = out.last().map_or(is_torn, |last| *last != b'\n');
                    let lines = lost.split(|byte| *byte == b'\n').count() - 1;
                    metrics::counter!(DROPPED).increment(lines as u64);
                }
            }
        }
    }

    /// Waits for something to write; returns how many lines were dropped meanwhile.
    fn take(&self, bytes: &mut Vec<u8>) -> u64 {
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        let mut state = self.lock();
        state.is_writing = false;
        self.0.changed.notify_all();
        while state.waiting.is_empty() {
            let waited = self.0.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.waiting, bytes);
        state.is_writing = true;
        std::mem::take(&mut state.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

/// Writes all, or returns how many bytes could be written.
fn write_all(sink: &mut impl Write, bytes: &[u8]) -> Result<(), usize> {
    let mut written = 0;
    while written < bytes.len() {
        match sink.write(&bytes[written..]) {
            Ok(count) if count > 0 => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(AGAIN),
            Ok(_) | Err(_) => return Err(written),
        }
    }
    Ok(())
}

/// For the tracing subscriber, which writes each line in one call.
impl<'a> MakeWriter<'a> for Output {
    type Writer = Lines<'a>;

    fn make_writer(&'a self) -> Lines<'a> {
        Lines(self)
    }
}

/// The writer of the subscriber. It never fails and never waits.
#[derive(Debug)]
pub(super) struct Lines<'a>(&'a Output);

impl Write for Lines<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.say(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that reads when the test says so, byte for byte into `read`.
    struct Sink {
        told: Receiver<io::Result<usize>>,
        read: Sender<Vec<u8>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // As with a pipe: a reader that is gone doesn't come back.
            let gone = || io::ErrorKind::BrokenPipe.into();
            let count = self.told.recv().unwrap_or_else(|_| Err(gone()))?;
            let count = count.min(bytes.len());
            self.read
                .send(bytes[..count].to_vec())
                .map_err(|_| gone())?;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// An output, and the reader's side of it: what it does with each write, and what it read.
    fn start() -> (Output, Sender<io::Result<usize>>, Receiver<Vec<u8>>) {
        let ((tell, told), (read, reads)) = (channel(), channel());
        (Output::to(Sink { told, read }), tell, reads)
    }

    const LONG: Duration = Duration::from_secs(20);

    fn text(reads: &Receiver<Vec<u8>>) -> String {
        String::from_utf8(reads.recv_timeout(LONG).unwrap()).unwrap()
    }

    #[test]
    fn lines_are_written_whole_and_in_order() {
        let (output, tell, reads) = start();
        output.say(b"one\n");
        tell.send(Ok(2)).unwrap();
        assert_eq!(text(&reads), "on");
        for passing in [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock] {
            tell.send(Err(passing.into())).unwrap();
        }
        output.say(b"two\n");
        output.say(b"three\n");
        tell.send(Ok(99)).unwrap();
        assert_eq!(text(&reads), "e\n");
        tell.send(Ok(99)).unwrap();
        output.flush(LONG);
        assert_eq!(text(&reads), "two\nthree\n");
    }

    #[test]
    fn a_reader_that_stops_reading_blocks_no_writer() {
        let (output, tell, reads) = start();
        let line = [[b'x'; 999].as_slice(), b"\n"].concat();
        // It has the first line and doesn't take it.
        output.say(&line);
        while !output.lock().is_writing {
            std::thread::yield_now();
        }
        for _ in 0..2_000 {
            output.say(&line);
        }
        assert!(output.lock().waiting.len() <= WAITING_BYTES_MAX);
        let kept = WAITING_BYTES_MAX / line.len();
        assert_eq!(output.lock().dropped, 2_000 - kept as u64);
        output.flush(Duration::from_millis(1));
        // Now it does.
        tell.send(Ok(usize::MAX)).unwrap();
        tell.send(Ok(usize::MAX)).unwrap();
        output.flush(LONG);
        let read = text(&reads).len() + text(&reads).len();
        assert_eq!(read, (1 + kept) * line.len());
        assert_eq!(output.lock().dropped, 0, "it was reported");
    }

    #[test]
    fn a_reader_that_is_gone_is_no_fault() {
        let (output, tell, reads) = start();
        drop(tell);
        for _ in 0..100 {
            output.say(b"this is not read\n");
            output.flush(LONG);
        }
        assert!(reads.try_recv().is_err());
    }

    /// A disk that was full has room again.
    #[test]
    fn a_line_that_was_torn_is_ended_before_the_next_one() {
        let (output, tell, reads) = start();
        output.say(b"one\n");
        tell.send(Ok(2)).unwrap();
        assert_eq!(text(&reads), "on");
        tell.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        output.flush(LONG);
        output.say(b"two\n");
        tell.send(Ok(99)).unwrap();
        assert_eq!(text(&reads), "\ntwo\n");
        // One of which nothing went out needs no end.
        output.say(b"three\n");
        tell.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        output.flush(LONG);
        output.say(b"four\n");
        tell.send(Ok(99)).unwrap();
        assert_eq!(text(&reads), "four\n");
    }
}
