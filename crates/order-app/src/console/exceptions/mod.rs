//! Payment exceptions: the queue, one of them with its order, and closing them.

mod close;
mod close_many;
mod one;
mod queue;

use order_fsm::Verdict;
use order_store::{ExceptionFilter, ExceptionState, PaymentException};

use super::frame::pairs::Pairs;
use super::show::chip::{self, Chip};
use super::show::moment::Moment;
use super::show::money::money;
use super::show::text::Text;

pub(super) use close::close;
pub(super) use close_many::close_many;
pub(super) use one::one;
pub(super) use queue::queue;

/// Which exceptions a person works through: those in a state, maybe of one verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Queue {
    state: ExceptionState,
    verdict: Option<Verdict>,
}

impl Queue {
    /// What the address or the form says; anything else means the open ones.
    fn of(pairs: &Pairs) -> Self {
        let state = pairs.get("state").and_then(|state| state.parse().ok());
        let verdict = pairs
            .get("verdict")
            .and_then(|verdict| verdict.parse().ok());
        Self {
            state: state.unwrap_or(ExceptionState::Open),
            verdict: verdict.filter(|verdict: &Verdict| verdict.can_be_exception()),
        }
    }

    fn filter(self) -> ExceptionFilter {
        ExceptionFilter {
            state: Some(self.state),
            verdict: self.verdict,
            order_id: None,
        }
    }

    /// As the query of an address.
    fn query(self) -> String {
        let verdict = self.verdict.map(|verdict| format!("&verdict={verdict}"));
        format!("state={}{}", self.state, verdict.unwrap_or_default())
    }
}

/// An exception as pages show it.
struct Shown {
    id: String,
    verdict: Chip,
    state: Chip,
    order_id: String,
    provider: String,
    transaction_id: String,
    kind: String,
    event_id: Option<String>,
    money: String,
    /// What was expected, where it differs.
    expected: Option<String>,
    expected_order_id: Option<String>,
    occurred_at: Moment,
    opened_at: Moment,
    in_time: Option<bool>,
    closed: Option<ShownClosure>,
}

struct ShownClosure {
    resolution: String,
    note: Option<Text>,
    by: Option<Text>,
    at: Moment,
}

impl From<PaymentException> for Shown {
    fn from(exception: PaymentException) -> Self {
        let in_time = exception.in_time();
        let content = &exception.content;
        let expected = exception.expected_amount.zip(exception.expected_currency);
        let expected = expected.filter(|of| *of != (content.amount, content.currency));
        let expected_order = exception.expected_order_id.as_ref();
        let expected_order = expected_order.filter(|order_id| **order_id != content.order_id);
        Self {
            verdict: chip::verdict(exception.verdict),
            state: chip::state(match exception.closed {
                Some(_) => ExceptionState::Closed.as_str(),
                None => ExceptionState::Open.as_str(),
            }),
            order_id: content.order_id.to_string(),
            provider: exception.key.provider.to_string(),
            transaction_id: exception.key.transaction_id.to_string(),
            kind: exception.key.kind.to_string(),
            event_id: exception.event_id.as_ref().map(ToString::to_string),
            money: money(content.amount, content.currency),
            expected: expected.map(|(amount, currency)| money(amount, currency)),
            expected_order_id: expected_order.map(ToString::to_string),
            occurred_at: Moment(exception.occurred_at),
            opened_at: Moment(exception.opened_at),
            in_time,
            closed: exception.closed.as_ref().map(|closed| ShownClosure {
                resolution: closed.resolution.clone(),
                note: closed.note.as_deref().map(Text::block),
                by: closed.by.as_deref().map(Text::line),
                at: Moment(closed.at),
            }),
            id: exception.id,
        }
    }
}
