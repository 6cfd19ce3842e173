//! What can go wrong with a reply.

use std::str::FromStr;
use std::time::Duration;

/// A fault of one reply. Over NATS a status is an error in the headers `Nats-Service-Error-Code` and `Retry-After`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The right answer, so much later.
    Slow(Duration),
    /// No answer at all; the connection stays open.
    Silent,
    /// The connection ends without an answer; over NATS there is just none.
    HangUp,
    /// The connection ends in the middle of the answer; over NATS half of it comes.
    CutOff,
    /// This status, with a JSON body that says so.
    Status(u16),
    /// This status, with the right answer as its body: nobody may read it.
    StatusWithAnswer(u16),
    /// 429.
    TooMany(RetryAfter),
    /// This status, to an address where the right answer is.
    Redirect(u16),
    /// Nothing in it.
    Empty,
    /// A page for people.
    Html,
    /// Bytes that are no text.
    Garbage,
    /// The right answer without its second half.
    Truncated,
    /// The right answer, and what is known of these orders, asked for or not.
    Foreign(Vec<String>),
    /// JSON that isn't a reply.
    OtherJson,
}

/// How a 429 names the time to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// Not at all.
    Absent,
    /// In seconds.
    Seconds(u32),
    /// As a date, so many seconds from now or up to one more: it has no fractions.
    Date(u32),
    /// In a way that nobody can read.
    Unreadable,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let wrong = || {
            format!(
                "{text:?} is none of slow=DURATION, silent, hang-up, cut-off, status=N, status-with-answer=N, \
                 too-many[=SECONDS], redirect[=N], empty, html, garbage, truncated, foreign=ID,…, other-json"
            )
        };
        let status = || match value.parse() {
            Ok(status @ 100..=599) => Ok(status),
            _ => Err(wrong()),
        };
        Ok(match (name, value) {
            ("slow", _) => Self::Slow(humantime::parse_duration(value).map_err(|_| wrong())?),
            ("status", _) => Self::Status(status()?),
            ("status-with-answer", _) => Self::StatusWithAnswer(status()?),
            ("too-many", "") => Self::TooMany(RetryAfter::Absent),
            ("too-many", _) => {
                Self::TooMany(RetryAfter::Seconds(value.parse().map_err(|_| wrong())?))
            }
            ("redirect", "") => Self::Redirect(307),
            ("redirect", _) => Self::Redirect(status()?),
            ("foreign", ids) if !ids.is_empty() => {
                Self::Foreign(ids.split(',').map(str::to_owned).collect())
            }
            ("silent", "") => Self::Silent,
            ("hang-up", "") => Self::HangUp,
            ("cut-off", "") => Self::CutOff,
            ("empty", "") => Self::Empty,
            ("html", "") => Self::Html,
            ("garbage", "") => Self::Garbage,
            ("truncated", "") => Self::Truncated,
            ("other-json", "") => Self::OtherJson,
            _ => return Err(wrong()),
        })
    }
}
