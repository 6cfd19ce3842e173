//! Messages that can't be understood: one fault each, so that only one reason fits.

use super::Plan;

/// Above this many bytes a message is a dead letter unread, and this much of it is kept.
pub(crate) const BODY_MAX: usize = 64 * 1024;

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is the fault it names")]
pub enum Fault {
    BrokenUtf8,
    CutShort,
    RepeatedAmount,
    RepeatedOrderId,
    NoAmount,
    NoOrderId,
    NumericOrderId,
    OrderIdWithSpace,
    OrderIdWithNul,
    LongTransactionId,
    ProviderInCapitals,
    ZeroAmount,
    NegativeAmount,
    AmountTooLarge,
    FractionalAmount,
    UnknownCurrency,
    TimeWithoutOffset,
    OtherProvider,
    ForeignType,
    TooLarge,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::BrokenUtf8,
        Self::CutShort,
        Self::RepeatedAmount,
        Self::RepeatedOrderId,
        Self::NoAmount,
        Self::NoOrderId,
        Self::NumericOrderId,
        Self::OrderIdWithSpace,
        Self::OrderIdWithNul,
        Self::LongTransactionId,
        Self::ProviderInCapitals,
        Self::ZeroAmount,
        Self::NegativeAmount,
        Self::AmountTooLarge,
        Self::FractionalAmount,
        Self::UnknownCurrency,
        Self::TimeWithoutOffset,
        Self::OtherProvider,
        Self::ForeignType,
        Self::TooLarge,
    ];

    /// The reasons the contract allows for it.
    pub fn reasons(self) -> &'static [&'static str] {
        match self {
            Self::BrokenUtf8 => &["invalid-utf8"],
            Self::CutShort => &["invalid-json"],
            Self::RepeatedAmount | Self::RepeatedOrderId => &["duplicate-key"],
            Self::NoAmount | Self::NoOrderId => &["missing-field"],
            Self::NumericOrderId => &["wrong-type"],
            Self::OrderIdWithSpace | Self::OrderIdWithNul | Self::LongTransactionId => {
                &["invalid-id"]
            }
            Self::ProviderInCapitals => &["invalid-provider"],
            Self::ZeroAmount | Self::NegativeAmount | Self::AmountTooLarge => &["invalid-amount"],
            // A number, but no integer: the contract only says that it is refused.
            Self::FractionalAmount => &["invalid-amount", "wrong-type"],
            Self::UnknownCurrency => &["invalid-currency"],
            Self::TimeWithoutOffset => &["invalid-time"],
            Self::OtherProvider => &["provider-mismatch"],
            Self::ForeignType => &["unsupported-type"],
            Self::TooLarge => &["too-large"],
        }
    }
}

impl Plan {
    /// What the service must have kept of a dead letter.
    pub fn letter_kept(&self, letter: u32) -> Vec<u8> {
        let mut body = self.letter_body(letter);
        body.truncate(BODY_MAX);
        body
    }

    pub(super) fn letter_body(&self, letter: u32) -> Vec<u8> {
        let fault = self.letters[letter as usize];
        let provider = self.letter_provider(letter);
        let prefix = &self.prefix;
        let good = Event {
            kind: "payment.succeeded",
            order: format!(r#""order_id":"{prefix}o-letter","#),
            provider: provider.to_owned(),
            transaction: format!("{prefix}t-letter{letter}"),
            amount: r#""amount":1000,"#.to_owned(),
            currency: "EUR",
            at: "2026-01-01T08:00:00Z",
            tail: String::new(),
        };
        let event = good.spoilt(fault, prefix);
        let mut body = event.render(&format!("{prefix}d{letter}")).into_bytes();
        match fault {
            Fault::BrokenUtf8 => {
                let last = body.len() - 2;
                body.splice(last..last, [0xff, 0xfe]);
            }
            Fault::CutShort => body.truncate(body.len() - 1),
            _ => {}
        }
        body
    }
}

struct Event {
    kind: &'static str,
    order: String,
    provider: String,
    transaction: String,
    amount: String,
    currency: &'static str,
    at: &'static str,
    tail: String,
}

impl Event {
    fn spoilt(mut self, fault: Fault, prefix: &str) -> Self {
        let amount = |text: &str| format!(r#""amount":{text},"#);
        let order = |text: &str| format!(r#""order_id":{text},"#);
        match fault {
            Fault::BrokenUtf8 | Fault::CutShort => {}
            Fault::RepeatedAmount => self.amount = self.amount.repeat(2),
            Fault::RepeatedOrderId => self.order = self.order.repeat(2),
            Fault::NoAmount => self.amount.clear(),
            Fault::NoOrderId => self.order.clear(),
            Fault::NumericOrderId => self.order = order("9007199254740993"),
            Fault::OrderIdWithSpace => self.order = order(&format!(r#""{prefix}o 1""#)),
            Fault::OrderIdWithNul => self.order = order(&format!(r#""{prefix}o\u0000""#)),
            Fault::LongTransactionId => self.transaction = format!("{:t<65}", self.transaction),
            Fault::ProviderInCapitals => self.provider = "ACME Inc.".into(),
            Fault::ZeroAmount => self.amount = amount("0"),
            Fault::NegativeAmount => self.amount = amount("-1000"),
            Fault::AmountTooLarge => self.amount = amount("9007199254740992"),
            Fault::FractionalAmount => self.amount = amount("1000.5"),
            Fault::UnknownCurrency => self.currency = "ZZZ",
            Fault::TimeWithoutOffset => self.at = "2026-01-01T08:00:00",
            Fault::OtherProvider => self.provider = "somebody-else".into(),
            Fault::ForeignType => self.kind = "order.created",
            Fault::TooLarge => self.tail = format!(r#","pad":"{}""#, "x".repeat(BODY_MAX)),
        }
        self
    }

    fn render(&self, event_id: &str) -> String {
        let Self {
            kind,
            order,
            provider,
            transaction,
            amount,
            currency,
            at,
            tail,
        } = self;
        format!(
            r#"{{"event_id":"{event_id}","type":"{kind}",{order}"provider":"{provider}","transaction_id":"{transaction}",{amount}"currency":"{currency}","occurred_at":"{at}"{tail}}}"#
        )
    }
}
