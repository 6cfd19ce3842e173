//! Progress on standard error: one rewriting line on a terminal, else a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use order_drill::Progress;
use tokio::time::sleep;

const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Does the work and shows its progress meanwhile.
pub(crate) async fn during<T>(progress: &Progress, work: impl Future<Output = T>) -> T {
    let is_terminal = std::io::stderr().is_terminal();
    let result = tokio::select! {
        result = work => result,
        () = show(progress, is_terminal) => unreachable!("it shows for ever"),
    };
    if is_terminal {
        write("\r\x1b[K");
    }
    result
}

async fn show(progress: &Progress, is_terminal: bool) {
    loop {
        sleep(if is_terminal { ON_TERMINAL } else { ELSEWHERE }).await;
        write(&if is_terminal {
            format!("\r\x1b[K{progress}")
        } else {
            format!("{progress}\n")
        });
    }
}

/// A closed standard error is no reason to fail.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
