//! Words of closed lists, each with a colour of its own.

use std::fmt;

use askama::filters::HtmlSafe;
use order_fsm::{OrderStatus, Verdict};

/// A word, as HTML. Only words of this service's own lists get here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chip {
    tone: &'static str,
    word: &'static str,
}

impl HtmlSafe for Chip {}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tone, word } = self;
        write!(f, "<span class=\"chip {tone}\">{word}</span>")
    }
}

/// The status of an order.
pub(crate) fn status(status: OrderStatus) -> Chip {
    Chip {
        tone: status_tone(status),
        word: status.as_str(),
    }
}

/// The colour of a status, in chips and pictures.
pub(crate) const fn status_tone(status: OrderStatus) -> &'static str {
    match status {
        OrderStatus::NotPaid => "amber",
        OrderStatus::Paid => "blue",
        OrderStatus::Shipped => "violet",
        OrderStatus::Done => "green",
        OrderStatus::Cancelled => "grey",
    }
}

/// The verdict of a payment.
pub(crate) fn verdict(verdict: Verdict) -> Chip {
    let tone = match verdict {
        Verdict::Applied => "green",
        Verdict::Duplicate | Verdict::AttemptFailed | Verdict::Unsupported => "grey",
        Verdict::WaitingForOrder => "amber",
        Verdict::NotLive
        | Verdict::ConflictingContent
        | Verdict::Reversed
        | Verdict::SecondPayment
        | Verdict::PaidAfterCancel
        | Verdict::CurrencyMismatch
        | Verdict::AmountMismatch => "red",
    };
    Chip {
        tone,
        word: verdict.as_str(),
    }
}

/// Whether something still needs a person, or how far a run is.
pub(crate) fn state(word: &'static str) -> Chip {
    let tone = match word {
        "open" | "failed" => "red",
        "running" => "blue",
        "done" | "replayed" => "green",
        _ => "grey",
    };
    Chip { tone, word }
}
