//! Where both ways in meet: writes down the question, looks the answer up, and says how it goes out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use time::OffsetDateTime;
use time::macros::format_description;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::asked::{self, Pace};
use super::{Asked, Fault, RetryAfter, Script};

/// Over the limit: come back when this second is over.
const LIMIT_PAUSE: u32 = 1;

#[derive(Debug)]
pub(super) struct Desk {
    state: Mutex<State>,
    is_held: watch::Sender<bool>,
    /// Questions so far, for those who wait for one.
    count: watch::Sender<u64>,
    waiting: watch::Sender<usize>,
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
    /// The first half of something longer, then the end of the connection.
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
            waiting: watch::Sender::new(0),
        }
    }

    /// Answers a question; errors are what the caller did wrong on the way in.
    pub(super) async fn answer(&self, question: Result<Vec<u8>, String>) -> Reply {
        let waiting = Waiting::new(self);
        let (delay, reply) = self
            .lock()
            .answer(question, waiting.at_once, Instant::now());
        self.count.send_modify(|count| *count += 1);
        if let Some(delay) = delay {
            sleep(delay).await;
        }
        // The sender lives as long as we do.
        let _ = self.is_held.subscribe().wait_for(|is_held| !is_held).await;
        reply
    }

    /// Somebody came where a redirect points to.
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
        let _ = self
            .count
            .subscribe()
            .wait_for(|count| *count >= questions)
            .await;
    }

    pub(super) fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    /// A panic in a test's rule must not hide behind a poisoned lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question on the desk; given up by its asker, it is gone too.
struct Waiting<'a> {
    desk: &'a Desk,
    at_once: usize,
}

impl<'a> Waiting<'a> {
    fn new(desk: &'a Desk) -> Self {
        let mut at_once = 0;
        desk.waiting.send_modify(|waiting| {
            *waiting += 1;
            at_once = *waiting;
        });
        Self { desk, at_once }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.desk.waiting.send_modify(|waiting| *waiting -= 1);
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
                asked.add_wrong(&what);
                return (None, status(400));
            }
        };
        asked.add_orders(&order_ids);
        if script.is_over(in_a_second) {
            asked.limited += 1;
            return (None, too_many(RetryAfter::Seconds(LIMIT_PAUSE), pace, now));
        }
        let fault = script.fault(asked.questions, &order_ids);
        let answer = |foreign: &[String]| script.reply(&order_ids, foreign).into_bytes();
        let half = |mut body: Vec<u8>| {
            body.truncate(body.len() / 2);
            body
        };
        let reply = match fault {
            None | Some(Fault::Slow(_)) => well(answer(&[])),
            Some(Fault::Silent) => Reply::Silent,
            Some(Fault::HangUp) => Reply::HangUp,
            Some(Fault::CutOff) => Reply::CutOff {
                body: half(answer(&[])),
            },
            Some(Fault::Status(code)) => status(code),
            Some(Fault::StatusWithAnswer(code)) => with_status(code, answer(&[])),
            Some(Fault::TooMany(retry_after)) => too_many(retry_after, pace, now),
            Some(Fault::Redirect(code)) => Reply::Whole {
                status: code,
                headers: vec![("location", FOLLOWED.to_owned())],
                body: Vec::new(),
            },
            Some(Fault::Empty) => well(Vec::new()),
            Some(Fault::Html) => Reply::Whole {
                status: 200,
                headers: vec![("content-type", "text/html".to_owned())],
                body: b"<!doctype html><title>Be right back</title>".to_vec(),
            },
            Some(Fault::Garbage) => well(vec![0xff, 0x00, 0xfe, b'{', 0xc3, 0x28]),
            Some(Fault::Truncated) => well(half(answer(&[]))),
            Some(Fault::Foreign(ref foreign)) => well(answer(foreign)),
            Some(Fault::OtherJson) => well(br#"{"payments":{"state":"paid"},"ok":true}"#.to_vec()),
        };
        let delay = match fault {
            Some(Fault::Slow(delay)) => Some(delay),
            _ => None,
        };
        (delay, reply)
    }
}

/// Where redirects point to.
pub(super) const FOLLOWED: &str = "/followed";

fn well(body: Vec<u8>) -> Reply {
    with_status(200, body)
}

fn status(code: u16) -> Reply {
    with_status(code, format!(r#"{{"error":{code}}}"#).into_bytes())
}

fn with_status(status: u16, body: Vec<u8>) -> Reply {
    let headers = vec![("content-type", "application/json".to_owned())];
    Reply::Whole {
        status,
        headers,
        body,
    }
}

fn too_many(retry_after: RetryAfter, pace: &mut Pace, now: Instant) -> Reply {
    let mut headers = vec![("content-type", "application/json".to_owned())];
    let named = match retry_after {
        RetryAfter::Absent => None,
        RetryAfter::Unreadable => Some((0, "in a while".to_owned())),
        RetryAfter::Seconds(seconds) => Some((seconds, seconds.to_string())),
        RetryAfter::Date(seconds) => Some((seconds, date_after(seconds))),
    };
    if let Some((seconds, text)) = named {
        pace.close(now, Duration::from_secs(seconds.into()));
        headers.push(("retry-after", text));
    }
    Reply::Whole {
        status: 429,
        headers,
        body: br#"{"error":429}"#.to_vec(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an HTTP date is wall time, and the mock is outside of the service"
)]
fn date_after(seconds: u32) -> String {
    // Rounded up: the date never names an earlier time than the seconds do.
    let at = OffsetDateTime::now_utc() + Duration::from_secs(u64::from(seconds) + 1);
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    at.format(&format)
        .expect("a time of this century has an HTTP form")
}
