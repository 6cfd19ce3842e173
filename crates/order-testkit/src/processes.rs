//! Signals and the process table, through `sh` and `ps`: the direct way would need unsafe code.

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::Error;

pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Sends a signal (`KILL`, `STOP`, …). Processes that are gone already are no error.
pub(crate) fn signal(name: &str, pids: &[u32]) -> Result<(), Error> {
    if pids.is_empty() {
        return Ok(());
    }
    Command::new("/bin/sh")
        .args([
            "-c",
            r#"signal=$1; shift; kill -s "$signal" "$@""#,
            "sh",
            name,
        ])
        .args(pids.iter().map(u32::to_string))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map(drop)
        .map_err(Error::io(format!("send SIG{name}")))
}

/// The live processes whose parent is `parent`.
pub(crate) fn children_of(parent: u32) -> Result<Vec<u32>, Error> {
    Ok(table()?
        .into_iter()
        .filter(|entry| entry.parent == parent)
        .map(|entry| entry.pid)
        .collect())
}

/// Waits until none of `pids` lives; answers those that still do at the end.
pub(crate) fn wait_until_gone(pids: &[u32], bound: Duration) -> Result<Vec<u32>, Error> {
    if pids.is_empty() {
        return Ok(Vec::new());
    }
    let deadline = Instant::now() + bound;
    loop {
        let alive: Vec<u32> = table()?
            .into_iter()
            .map(|entry| entry.pid)
            .filter(|pid| pids.contains(pid))
            .collect();
        if alive.is_empty() || Instant::now() >= deadline {
            return Ok(alive);
        }
        thread::sleep(POLL);
    }
}

struct Entry {
    pid: u32,
    parent: u32,
}

/// A zombie counts as gone: who its new parent is, and when that looks, is not ours to say.
fn table() -> Result<Vec<Entry>, Error> {
    let output = Command::new("ps")
        .args(["-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="])
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("list processes with ps"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(entry).collect())
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let parent = words.next()?.parse().ok()?;
    let state = words.next()?;
    (!state.starts_with('Z')).then_some(Entry { pid, parent })
}
