//! What can go wrong with a reply.

use std::str::FromStr;
use std::time::Duration;

/// A fault of one reply. Over NATS a status is an error in the headers `Nats-Service-Error-Code` and `Retry-After`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The correct answer after this delay.
    Slow(Duration),
    /// No answer; the connection stays open.
    Silent,
    /// The connection ends without an answer. Over NATS there is no answer.
    HangUp,
    /// The connection ends in the middle of the answer. Over NATS the first half of the answer is the reply.
    CutOff,
    /// This status, with a JSON body that names it.
    Status(u16),
    /// This status with the correct answer as its body, which must not be read.
    StatusWithAnswer(u16),
    /// Status 429.
    TooMany(RetryAfter),
    /// Status 503.
    Unavailable(RetryAfter),
    /// The correct answer with status 200, and a time before which the next question must not come. Over NATS that time is
    /// left out.
    AnswerAndPause(RetryAfter),
    /// A redirect with this status to an address that has the correct answer.
    Redirect(u16),
    /// An empty body.
    Empty,
    /// An HTML page.
    Html,
    /// Bytes that aren't UTF-8.
    Garbage,
    /// The first half of the correct answer.
    Truncated,
    /// The correct answer, and the entries about these orders whether or not the question named them.
    Foreign(Vec<String>),
    /// This text as the whole body.
    Body(String),
}

/// How a refusal names the time to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// It doesn't.
    Absent,
    /// In seconds.
    Seconds(u32),
    /// As a date this many seconds from now, or up to one second more: a date has no fractions.
    Date(u32),
    /// As a text that can't be read.
    Unreadable,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let wrong = || {
            format!(
                "{text:?} is not a fault; use slow=DURATION, silent, hang-up, cut-off, status=N, status-with-answer=N, \
                 too-many[=SECONDS], unavailable[=SECONDS], answer-and-pause[=SECONDS], redirect[=N], empty, html, garbage, truncated, foreign=ID,… \
                 or body=TEXT"
            )
        };
        let status = || match value.parse() {
            Ok(status @ 100..=599) => Ok(status),
            _ => Err(wrong()),
        };
        let retry_after = || match value {
            "" => Ok(RetryAfter::Absent),
            seconds => seconds
                .parse()
                .map(RetryAfter::Seconds)
                .map_err(|_| wrong()),
        };
        Ok(match (name, value) {
            ("slow", _) => Self::Slow(humantime::parse_duration(value).map_err(|_| wrong())?),
            ("status", _) => Self::Status(status()?),
            ("status-with-answer", _) => Self::StatusWithAnswer(status()?),
            ("too-many", _) => Self::TooMany(retry_after()?),
            ("unavailable", _) => Self::Unavailable(retry_after()?),
            ("answer-and-pause", _) => Self::AnswerAndPause(retry_after()?),
            ("redirect", "") => Self::Redirect(307),
            ("redirect", _) => Self::Redirect(status()?),
            ("foreign", ids) if !ids.is_empty() => {
                Self::Foreign(ids.split(',').map(str::to_owned).collect())
            }
            ("body", text) => Self::Body(text.to_owned()),
            ("silent", "") => Self::Silent,
            ("hang-up", "") => Self::HangUp,
            ("cut-off", "") => Self::CutOff,
            ("empty", "") => Self::Empty,
            ("html", "") => Self::Html,
            ("garbage", "") => Self::Garbage,
            ("truncated", "") => Self::Truncated,
            ("other-json", "") => {
                Self::Body(r#"{"payments":{"state":"paid"},"ok":true}"#.to_owned())
            }
            _ => return Err(wrong()),
        })
    }
}
