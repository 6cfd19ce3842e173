//! Progress on standard error: one rewriting line on a terminal, else a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use order_drill::{Phase, Progress};
use tokio::time::sleep;

const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Does the work and shows its progress meanwhile.
pub(crate) async fn beside<T>(progress: &Progress, work: impl Future<Output = T>) -> T {
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
        let line = line(progress);
        write(&if is_terminal {
            format!("\r\x1b[K{line}")
        } else {
            format!("{line}\n")
        });
    }
}

fn line(progress: &Progress) -> String {
    let phase = progress.phase();
    let doing = phase.as_str();
    match (phase, progress.counts()) {
        (Phase::Settling, (_, left)) => format!("{doing}: {left} left"),
        (_, (_, 0)) => doing.to_owned(),
        (_, (done, total)) => format!("{doing}: {done} of {total}"),
    }
}

/// Nobody who closed standard error wants to hear of it.
fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}
