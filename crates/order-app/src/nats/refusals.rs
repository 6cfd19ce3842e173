//! What the broker denies: logging in, publishing to a subject, subscribing to one.
//!
//! It doesn't answer such requests: a request to a subject that isn't permitted looks like a slow
//! server. Instead it reports the denial over the connection. The reports are kept here, so that
//! readiness can name them.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// A denial that isn't repeated within this time counts as over: everything that is needed is tried more
/// often.
const KEPT: Duration = Duration::from_mins(1);

/// The most subjects that are remembered.
const KEPT_MAX: usize = 64;

const SUBSCRIBING: &str = "subscribing to";

/// The denials on all connections of a process to one broker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Refusals(watch::Sender<Known>);

#[derive(Debug, Clone, Default)]
struct Known {
    /// By what was denied, in words.
    denials: BTreeMap<String, Denial>,
    /// Why the last attempt to connect failed.
    unconnected: Option<String>,
}

#[derive(Debug, Clone)]
struct Denial {
    subject: String,
    seen: Instant,
    count: u64,
    logged: Instant,
    is_over: bool,
}

impl Default for Refusals {
    fn default() -> Self {
        Self(watch::Sender::new(Known::default()))
    }
}

impl Refusals {
    /// What is denied at the moment, as text.
    pub fn denials(&self) -> Vec<String> {
        let known = self.0.borrow();
        let current = known.denials.iter().filter(|(_, denial)| denial.holds());
        current.map(|(what, _)| what.clone()).collect()
    }

    /// Why there is no connection, if so.
    pub fn unconnected(&self) -> Option<String> {
        self.0.borrow().unconnected.clone()
    }

    /// What is denied about this subject at the moment, as text.
    pub fn of(&self, subject: &str) -> Option<String> {
        let subject = general(subject);
        let known = self.0.borrow();
        let mut current = known.denials.iter().filter(|(_, denial)| denial.holds());
        current.find_map(|(what, denial)| (denial.subject == subject).then(|| what.clone()))
    }

    /// Waits for the next denial about one of these subjects after this call.
    pub fn next_of(&self, subjects: &[&str]) -> impl Future<Output = String> + use<> {
        let subjects: Vec<String> = subjects.iter().map(|subject| general(subject)).collect();
        let mut changes = self.0.subscribe();
        let before = changes.borrow_and_update().count(&subjects);
        async move {
            let known = changes.wait_for(|known| known.count(&subjects) > before);
            match known.await.map(|known| known.last(&subjects)) {
                Ok(what) => what.unwrap_or_default(),
                // The sender is gone: nothing more is reported.
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// Notes that this subject is permitted, because something on it worked.
    pub fn permitted(&self, subject: &str) {
        let subject = general(subject);
        self.forgive(|denied| denied == subject);
    }

    /// The same for all subjects with this beginning.
    pub(super) fn permitted_under(&self, beginning: &str) {
        self.forgive(|denied| denied.starts_with(beginning));
    }

    fn forgive(&self, is_over: impl Fn(&str) -> bool) {
        self.0.send_if_modified(|known| {
            for denial in known.denials.values_mut() {
                denial.is_over |= is_over(&denial.subject);
            }
            false
        });
    }

    /// Notes what a server reported. Returns whether it is worth a log line: the first time, and
    /// then once a minute. `None` if it isn't a denial.
    pub(super) fn note(&self, reported: &str) -> Option<bool> {
        let (verb, subject) = parse(reported)?;
        let subject = general(subject);
        let what = format!("{verb} {subject} is denied");
        let now = Instant::now();
        let mut is_news = false;
        self.0.send_modify(|known| {
            if known.denials.len() >= KEPT_MAX {
                known.denials.retain(|_, denial| denial.holds());
            }
            if known.denials.len() >= KEPT_MAX && !known.denials.contains_key(&what) {
                return;
            }
            let denial = known.denials.entry(what).or_insert_with(|| {
                is_news = true;
                Denial {
                    subject,
                    seen: now,
                    count: 0,
                    logged: now,
                    is_over: false,
                }
            });
            denial.seen = now;
            denial.count += 1;
            denial.is_over = false;
            if now.duration_since(denial.logged) >= KEPT {
                denial.logged = now;
                is_news = true;
            }
        });
        Some(is_news)
    }

    /// Notes that an attempt to connect failed.
    pub(super) fn note_unconnected(&self, why: &str) {
        self.0
            .send_modify(|known| known.unconnected = Some(why.to_owned()));
    }

    /// Notes that an attempt to connect succeeded.
    pub(super) fn note_connected(&self) {
        self.0.send_modify(|known| known.unconnected = None);
    }
}

impl Known {
    fn of<'a>(&'a self, subjects: &'a [String]) -> impl Iterator<Item = (&'a String, &'a Denial)> {
        let denials = self.denials.iter();
        denials.filter(|(_, denial)| subjects.contains(&denial.subject))
    }

    fn count(&self, subjects: &[String]) -> u64 {
        self.of(subjects).map(|(_, denial)| denial.count).sum()
    }

    fn last(&self, subjects: &[String]) -> Option<String> {
        let last = self.of(subjects).max_by_key(|(_, denial)| denial.seen);
        last.map(|(what, _)| what.clone())
    }
}

impl Denial {
    fn holds(&self) -> bool {
        !self.is_over && self.seen.elapsed() < KEPT
    }
}

/// Reads `Permissions Violation for Publish to "subject"`, and what servers say of subscriptions.
fn parse(reported: &str) -> Option<(&'static str, &str)> {
    let rest = reported.strip_prefix("Permissions Violation for ")?;
    let (kind, rest) = rest.split_once(" to \"")?;
    let verb = match kind {
        "Publish" => "publishing to",
        "Subscription" => SUBSCRIBING,
        _ => return None,
    };
    Some((verb, rest.split('"').next()?))
}

/// The subject of a subscription that the server denies, if that is what it reports.
pub(super) fn denied_subscription(reported: &str) -> Option<&str> {
    let (_, subject) = parse(reported).filter(|(verb, _)| *verb == SUBSCRIBING)?;
    Some(subject)
}

/// The subject without the parts that differ in each message, so that the number of subjects stays small.
fn general(subject: &str) -> String {
    if subject.starts_with("_INBOX.") {
        return "_INBOX.>".to_owned();
    }
    if subject.starts_with("$JS.ACK.") {
        let consumer: Vec<&str> = subject.split('.').take(4).collect();
        return format!("{}.>", consumer.join("."));
    }
    subject.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: &str = "$JS.ACK.PAYMENTS.orderd.1.7.7.1796076840525698066.19";

    #[tokio::test(start_paused = true)]
    async fn a_denial_holds_until_it_works_or_is_not_repeated() {
        let refusals = Refusals::default();
        let denied = format!("Permissions Violation for Publish to \"{ACK}\"");
        let what = "publishing to $JS.ACK.PAYMENTS.orderd.> is denied";
        assert_eq!(refusals.note(&denied), Some(true));
        assert_eq!(refusals.note(&denied), Some(false), "it is logged once");
        assert_eq!(refusals.denials(), [what]);
        assert_eq!(refusals.of(ACK).as_deref(), Some(what));
        assert_eq!(refusals.of("$JS.ACK.PAYMENTS.other.1.1.1.1.1"), None);
        refusals.permitted(ACK);
        assert_eq!(refusals.denials(), [] as [&str; 0]);
        assert_eq!(refusals.note(&denied), Some(false));
        assert_eq!(refusals.denials(), [what]);
        tokio::time::advance(KEPT).await;
        assert_eq!(refusals.denials(), [] as [&str; 0]);
        assert_eq!(refusals.note(&denied), Some(true), "once in a while");
    }

    #[tokio::test]
    async fn the_next_denial_of_a_subject_is_waited_for() {
        let refusals = Refusals::default();
        let inbox = "Permissions Violation for Subscription to \"_INBOX.a.b\" using queue \"q\"";
        refusals.note(inbox);
        let mut next = std::pin::pin!(refusals.next_of(&["_INBOX.x.y"]));
        assert!(futures_util::poll!(&mut next).is_pending());
        refusals.note("Permissions Violation for Publish to \"other\"");
        assert!(futures_util::poll!(&mut next).is_pending());
        refusals.note(inbox);
        assert_eq!(next.await, "subscribing to _INBOX.> is denied");
    }

    #[test]
    fn other_reports_are_not_denials_and_the_memory_is_bounded() {
        let refusals = Refusals::default();
        for other in [
            "",
            "Stale Connection",
            "Permissions Violation for x",
            "User Authentication Expired",
        ] {
            assert_eq!(refusals.note(other), None, "{other}");
        }
        for number in 0..2 * KEPT_MAX {
            refusals.note(&format!(
                "Permissions Violation for Publish to \"s{number}\""
            ));
        }
        assert_eq!(refusals.denials().len(), KEPT_MAX);
    }
}
