//! The subjects that the broker doesn't accept at the moment.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The pauses between two trials of a closed subject.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The closed subjects, each by the last token of its name. What isn't here is open.
#[derive(Debug, Default)]
pub(super) struct Subjects(BTreeMap<&'static str, Closed>);

#[derive(Debug)]
struct Closed {
    why: String,
    pause: Duration,
    next_trial: Instant,
}

impl Subjects {
    /// Whether events may be sent there.
    pub(super) fn is_open(&self, token: &str) -> bool {
        !self.0.contains_key(token)
    }

    /// Closes a subject; returns whether it was open.
    pub(super) fn close(&mut self, token: &'static str, why: String, now: Instant) -> bool {
        if let Some(closed) = self.0.get_mut(token) {
            closed.why = why;
            return false;
        }
        let closed = Closed {
            why,
            pause: PAUSE_MIN,
            next_trial: now + PAUSE_MIN,
        };
        self.0.insert(token, closed);
        true
    }

    /// A trial has failed: the next one comes after a longer pause.
    pub(super) fn failed(&mut self, token: &'static str, now: Instant) {
        if let Some(closed) = self.0.get_mut(token) {
            closed.pause = (closed.pause * 2).min(PAUSE_MAX);
            closed.next_trial = now + closed.pause;
        }
    }

    /// A trial has succeeded.
    pub(super) fn open(&mut self, token: &str) {
        self.0.remove(token);
    }

    /// The closed subjects whose next trial is due.
    pub(super) fn due(&self, now: Instant) -> Vec<&'static str> {
        let due = self.0.iter().filter(|(_, closed)| closed.next_trial <= now);
        due.map(|(token, _)| *token).collect()
    }

    /// Why a subject is closed.
    pub(super) fn why(&self, token: &str) -> Option<&str> {
        self.0.get(token).map(|closed| closed.why.as_str())
    }

    /// The closed subjects.
    pub(super) fn closed(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// Opens all of them: another holder of the lease may have learnt more since.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_subject_is_tried_again_after_growing_pauses_until_it_is_open() {
        let mut subjects = Subjects::default();
        let mut now = Instant::now();
        assert!(subjects.is_open("paid"));
        assert!(subjects.close("paid", "denied".to_owned(), now));
        assert!(!subjects.close("paid", "still denied".to_owned(), now));
        assert!(!subjects.is_open("paid") && subjects.is_open("created"));
        assert_eq!(subjects.why("paid"), Some("still denied"));
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let asked_at = now;
            while subjects.due(now).is_empty() {
                now += Duration::from_millis(250);
            }
            pauses.push((now - asked_at).as_millis());
            subjects.failed("paid", now);
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert_eq!(subjects.closed().collect::<Vec<_>>(), ["paid"]);
        subjects.open("paid");
        assert!(subjects.is_open("paid"));
    }
}
