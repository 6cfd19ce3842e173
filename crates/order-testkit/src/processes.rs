//! Signals, and the process table through `ps`, which every system has.

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};

use crate::Error;

pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Sends a signal to these processes. A process that has ended already isn't an error.
pub(crate) fn send(signal: Signal, pids: &[u32]) -> Result<(), Error> {
    let raw = |pid: &u32| i32::try_from(*pid).ok().and_then(Pid::from_raw);
    for pid in pids.iter().filter_map(raw) {
        match kill_process(pid, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(Error::io(format!("send {signal:?}"))(errno.into())),
        }
    }
    Ok(())
}

/// The live processes whose parent is `parent`.
pub(crate) fn children_of(parent: u32) -> Result<Vec<u32>, Error> {
    Ok(table()?
        .into_iter()
        .filter(|entry| entry.parent == parent)
        .map(|entry| entry.pid)
        .collect())
}

/// Waits until these processes have ended; returns those that still live when the time is over.
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

/// A zombie counts as ended: when its new parent reaps it is out of our hands.
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
