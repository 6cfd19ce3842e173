//! CPU time and memory of processes, as `/proc` counts them: in ticks of 10 ms.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Linux reports times in `/proc` in hundredths of a second, whatever the kernel counts in.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of a process and of its children that have ended.
fn own(pid: u32) -> Option<(u32, Duration)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain spaces.
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let parent = words.get(1)?.parse().ok()?;
    let ticks = words.get(11..15)?.iter().map(|word| word.parse::<u32>());
    let ticks: u32 = ticks.collect::<Result<Vec<_>, _>>().ok()?.iter().sum();
    Some((parent, TICK * ticks))
}

/// CPU time of a process and of all its children.
pub(crate) fn time_of(pid: u32) -> Duration {
    let total = own(pid).map_or(Duration::ZERO, |(_, time)| time);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = pids.filter_map(own).filter(|(parent, _)| *parent == pid);
    children.fold(total, |total, (_, time)| total + time)
}

/// A line of `/proc/<pid>/status` in kB, such as `VmRSS`, in megabytes.
pub(crate) fn memory(pid: u32, line: &str) -> Result<f64> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/status")).context("the process has ended")?;
    let value = text.lines().find_map(|found| {
        let value = found.strip_prefix(line)?.strip_prefix(':')?;
        value.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()
    });
    Ok(value.with_context(|| format!("no {line} of process {pid}"))? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_time() {
        let pid = std::process::id();
        assert!(memory(pid, "VmRSS").unwrap() > 1.0);
        assert!(memory(pid, "VmNonsense").is_err());
        let before = time_of(pid);
        let mut sum = 0_u64;
        while time_of(pid) == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
