//! The names and bytes of what a plan holds as numbers.

use time::format_description::well_known::Rfc3339;
use time::macros::{datetime, offset};
use time::{Duration, OffsetDateTime};

use super::{Fact, Message, Plan};

/// The label of an event id that several payments share.
pub(super) const SHARED_LABEL: u16 = u16::MAX;

/// Fixed, so that the same seed gives the same bytes. The service doesn't refuse a payment by its time.
const EPOCH: OffsetDateTime = datetime!(2026-01-01 08:00:00 UTC);

impl Plan {
    pub(crate) fn order_id(&self, order: u32) -> String {
        format!("{}o{order}", self.prefix)
    }

    /// The number of an order, if it is one of this plan.
    pub(crate) fn order_number(&self, order_id: &str) -> Option<u32> {
        let number: u32 = order_id
            .strip_prefix(&self.prefix)?
            .strip_prefix('o')?
            .parse()
            .ok()?;
        ((number as usize) < self.orders.len()).then_some(number)
    }

    pub(crate) fn transaction_id(&self, fact: &Fact) -> String {
        format!("{}t{}", self.prefix, fact.transaction)
    }

    pub(crate) fn provider(&self, fact: &Fact) -> &str {
        &self.providers[usize::from(fact.provider)]
    }

    /// Whether a message about the fact can have this event id.
    pub(crate) fn is_event_id(&self, fact: u32, event_id: &str) -> bool {
        let copies = self.fact(fact).copies;
        event_id == self.event_id(fact, SHARED_LABEL)
            || (0..copies.max(1)).any(|label| event_id == self.event_id(fact, label))
    }

    /// The name of a payment in differences.
    pub(crate) fn payment_name(&self, number: u32) -> String {
        let fact = self.fact(number);
        format!(
            "payment {}/{}/{}",
            self.provider(fact),
            self.transaction_id(fact),
            fact.kind.as_str()
        )
    }

    /// The provider whose subject a message is published on.
    pub(crate) fn subject_provider(&self, message: Message) -> &str {
        match message {
            Message::Payment { fact, .. } => self.provider(self.fact(fact)),
            Message::Letter { letter } => self.letter_provider(letter),
        }
    }

    pub(crate) fn body(&self, message: Message) -> Vec<u8> {
        match message {
            Message::Payment { fact, label } => self.event(fact, label).into_bytes(),
            Message::Letter { letter } => self.letter_body(letter),
        }
    }

    pub(super) fn letter_provider(&self, letter: u32) -> &str {
        &self.providers[letter as usize % self.providers.len()]
    }

    fn event_id(&self, fact: u32, label: u16) -> String {
        match label {
            SHARED_LABEL => format!("{}e-shared", self.prefix),
            0 => format!("{}e{fact}", self.prefix),
            copy => format!("{}e{fact}.{copy}", self.prefix),
        }
    }

    fn event(&self, number: u32, label: u16) -> String {
        let fact = self.fact(number);
        format!(
            r#"{{"event_id":"{}","type":"payment.{}","order_id":"{}","provider":"{}","transaction_id":"{}","amount":{},"currency":"{}","occurred_at":"{}"{}}}"#,
            self.event_id(number, label),
            fact.kind.as_str(),
            self.order_id(fact.order),
            self.provider(fact),
            self.transaction_id(fact),
            fact.amount,
            fact.currency.as_str(),
            occurred_at(number),
            tail(fact, number),
        )
    }
}

/// An absent `livemode` means live; unknown fields are ignored, whatever they contain.
fn tail(fact: &Fact, number: u32) -> &'static str {
    match (fact.live, number % 3) {
        (false, _) => r#","livemode":false"#,
        (true, 0) => r#","livemode":true"#,
        (true, 1) => r#","livemode":true,"meta":{"order_id":"not-this-one","fee":1.5e-3}"#,
        (true, _) => "",
    }
}

/// When a fact happened; some with an offset and a fraction, as some providers send them.
pub(crate) fn occurred_at(number: u32) -> String {
    let at = EPOCH + Duration::milliseconds(i64::from(number) * 250);
    let at = if number.is_multiple_of(4) {
        at.to_offset(offset!(+8))
    } else {
        at
    };
    at.format(&Rfc3339)
        .expect("a time of this century has an RFC 3339 form")
}
