//! Where questions from both transports meet: it records the question, looks up the answer and decides how it is sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::asked::{self, Pace};
use super::{Asked, Fault, RetryAfter, Script};

/// The `Retry-After` of a question that exceeds the limit: the window of the limit, in seconds.
const LIMIT_PAUSE: u32 = 1;

/// The target of redirects.
pub(super) const FOLLOWED: &str = "/followed";

#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    is_held: watch::Sender<bool>,
    /// The number of questions so far.
    count: watch::Sender<u64>,
    /// Questions that aren't answered yet.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    asked: Asked,
    pace: Pace,
}

/// How a question is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Whole {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    },
    /// The first half of a body, then the end of the connection.
    CutOff {
        body: Vec<u8>,
    },
    HangUp,
    Silent,
}

impl Desk {
    pub(super) fn new(script: Script) -> Self {
        let state = State {
            script,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            is_held: watch::Sender::new(false),
            count: watch::Sender::new(0),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Answers a question; an error is what was wrong with the request that carried it.
    pub(super) async fn answer(&self, question: Result<Vec<u8>, String>) -> Reply {
        let at_once = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        let _leaving = Leaving(&self.waiting);
        let (delay, reply) = self.lock().answer(question, at_once, Instant::now());
        self.count.send_modify(|count| *count += 1);
        if let Some(delay) = delay {
            sleep(delay).await;
        }
        // The sender lives as long as `self`, so this can't fail.
        let _ = self.is_held.subscribe().wait_for(|is_held| !is_held).await;
        reply
    }

    /// Records a request to the target of redirects.
    pub(super) fn follow(&self) {
        self.lock().asked.followed += 1;
    }

    pub(super) fn script<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.lock().script)
    }

    pub(super) fn asked(&self) -> Asked {
        self.lock().asked.clone()
    }

    pub(super) async fn was_asked(&self, questions: u64) {
        let mut count = self.count.subscribe();
        let _ = count.wait_for(|count| *count >= questions).await;
    }

    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// A panic in a test's rule must not hide behind a poisoned lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a question as no longer waiting, also when its caller gives up.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    fn answer(
        &mut self,
        question: Result<Vec<u8>, String>,
        at_once: usize,
        now: Instant,
    ) -> (Option<Duration>, Reply) {
        let Self {
            script,
            asked,
            pace,
        } = self;
        let in_a_second = pace.arrive(now, asked);
        asked.most_at_once = asked.most_at_once.max(at_once);
        let order_ids = match question.and_then(|body| asked::read(&body)) {
            Ok(order_ids) => order_ids,
            Err(what) => {
                asked.add_wrong(what);
                return (None, refusal(400));
            }
        };
        asked.add_orders(&order_ids);
        if script.is_over(in_a_second) {
            asked.limited += 1;
            let retry_after = RetryAfter::Seconds(LIMIT_PAUSE);
            return (None, later(429, retry_after, pace, now));
        }
        let fault = script.fault(asked.questions, &order_ids);
        let answer = || script.reply(&order_ids, &[]).into_bytes();
        let half = |mut body: Vec<u8>| {
            body.truncate(body.len() / 2);
            body
        };
        let reply = match fault {
            None => json(200, answer()),
            Some(Fault::Slow(delay)) => return (Some(delay), json(200, answer())),
            Some(Fault::Silent) => Reply::Silent,
            Some(Fault::HangUp) => Reply::HangUp,
            Some(Fault::CutOff) => Reply::CutOff {
                body: half(answer()),
            },
            Some(Fault::Status(status)) => refusal(status),
            Some(Fault::StatusWithAnswer(status)) => json(status, answer()),
            Some(Fault::TooMany(retry_after)) => later(429, retry_after, pace, now),
            Some(Fault::Unavailable(retry_after)) => later(503, retry_after, pace, now),
            Some(Fault::AnswerAndPause(retry_after)) => {
                close(json(200, answer()), retry_after, pace, now)
            }
            Some(Fault::Redirect(status)) => {
                whole(status, "location", FOLLOWED.to_owned(), Vec::new())
            }
            Some(Fault::Empty) => json(200, Vec::new()),
            Some(Fault::Html) => {
                let page = b"<!doctype html><title>Be right back</title>".to_vec();
                whole(200, "content-type", "text/html".to_owned(), page)
            }
            Some(Fault::Garbage) => json(200, vec![0xff, 0x00, 0xfe, b'{', 0xc3, 0x28]),
            Some(Fault::Truncated) => json(200, half(answer())),
            Some(Fault::Foreign(foreign)) => {
                json(200, script.reply(&order_ids, &foreign).into_bytes())
            }
            Some(Fault::Body(text)) => json(200, text.into_bytes()),
        };
        (None, reply)
    }
}

fn whole(status: u16, header: &'static str, value: String, body: Vec<u8>) -> Reply {
    Reply::Whole {
        status,
        headers: vec![(header, value)],
        body,
    }
}

fn json(status: u16, body: Vec<u8>) -> Reply {
    whole(status, "content-type", "application/json".to_owned(), body)
}

fn refusal(status: u16) -> Reply {
    json(status, format!(r#"{{"error":{status}}}"#).into_bytes())
}

/// A refusal that may name a time; questions before that time count as too early.
fn later(status: u16, retry_after: RetryAfter, pace: &mut Pace, now: Instant) -> Reply {
    close(refusal(status), retry_after, pace, now)
}

fn close(mut reply: Reply, retry_after: RetryAfter, pace: &mut Pace, now: Instant) -> Reply {
    let named = match retry_after {
        RetryAfter::Absent => None,
        RetryAfter::Unreadable => Some((0, "in a while".to_owned())),
        RetryAfter::Seconds(seconds) => Some((seconds, seconds.to_string())),
        RetryAfter::Date(seconds) => Some((seconds, date_after(seconds))),
    };
    if let (Some((seconds, text)), Reply::Whole { headers, .. }) = (named, &mut reply) {
        pace.close(now, Duration::from_secs(seconds.into()));
        headers.push(("retry-after", text));
    }
    reply
}

#[expect(
    clippy::disallowed_methods,
    reason = "an HTTP date is wall time, and the mock is outside of the service"
)]
fn date_after(seconds: u32) -> String {
    // Rounded up: the date is never earlier than the same time in seconds.
    httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(u64::from(seconds) + 1))
}
