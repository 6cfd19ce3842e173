//! Messages that can't be understood: one fault each, so that only one reason fits.

use super::Plan;
use crate::words::words;

/// A larger message is a dead letter unread; this much of it is kept.
const BODY_MAX: usize = 64 * 1024;

words! {
    /// What is wrong with a message.
    pub(crate) enum Fault {
        BrokenUtf8 => "broken UTF-8",
        CutShort => "cut short",
        RepeatedAmount => "repeated amount",
        RepeatedOrderId => "repeated order_id",
        NoAmount => "no amount",
        NoOrderId => "no order_id",
        NumericOrderId => "numeric order_id",
        OrderIdWithSpace => "order_id with a space",
        OrderIdWithNul => "order_id with a NUL",
        LongTransactionId => "long transaction_id",
        ProviderInCapitals => "provider in capitals",
        ZeroAmount => "zero amount",
        NegativeAmount => "negative amount",
        AmountTooLarge => "amount too large",
        FractionalAmount => "fractional amount",
        UnknownCurrency => "unknown currency",
        TimeWithoutOffset => "time without an offset",
        OtherProvider => "another provider",
        ForeignType => "foreign type",
        TooLarge => "too large",
    }
}

impl Fault {
    /// The reasons that the contract allows for it.
    pub(crate) fn reasons(self) -> &'static [&'static str] {
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
            // A number that isn't an integer: the contract only says that it is refused.
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
    pub(crate) fn letter_kept(&self, letter: u32) -> Vec<u8> {
        let mut body = self.letter_body(letter);
        body.truncate(BODY_MAX);
        body
    }

    /// A good event with one part spoiled.
    pub(super) fn letter_body(&self, letter: u32) -> Vec<u8> {
        let (prefix, provider) = (&self.prefix, self.letter_provider(letter));
        let order_id = format!(r#""order_id":"{prefix}o-letter","#);
        let transaction_id = format!("{prefix}t-letter{letter}");
        let amount = r#""amount":1000,"#;
        let event = format!(
            r#"{{"event_id":"{prefix}d{letter}","type":"payment.succeeded",{order_id}"provider":"{provider}","transaction_id":"{transaction_id}",{amount}"currency":"EUR","occurred_at":"2026-01-01T08:00:00Z"}}"#
        );
        let with = |part: &str, other: &str| event.replacen(part, other, 1);
        let with_order = |text: &str| with(&order_id, &format!(r#""order_id":{text},"#));
        let with_amount = |text: &str| with(amount, &format!(r#""amount":{text},"#));
        let with_provider = |text: &str| {
            let part = format!(r#""provider":"{provider}""#);
            with(&part, &format!(r#""provider":"{text}""#))
        };
        let spoiled = match self.letters[letter as usize] {
            Fault::BrokenUtf8 => {
                let mut body = event.into_bytes();
                let last = body.len() - 2;
                body.splice(last..last, [0xff, 0xfe]);
                return body;
            }
            Fault::CutShort => event[..event.len() - 1].to_owned(),
            Fault::RepeatedAmount => with(amount, &amount.repeat(2)),
            Fault::RepeatedOrderId => with(&order_id, &order_id.repeat(2)),
            Fault::NoAmount => with(amount, ""),
            Fault::NoOrderId => with(&order_id, ""),
            Fault::NumericOrderId => with_order("9007199254740993"),
            Fault::OrderIdWithSpace => with_order(&format!(r#""{prefix}o 1""#)),
            Fault::OrderIdWithNul => with_order(&format!(r#""{prefix}o\u0000""#)),
            Fault::LongTransactionId => {
                let part = format!(r#"{transaction_id}",{amount}"#);
                with(&part, &format!(r#"{transaction_id:t<65}",{amount}"#))
            }
            Fault::ProviderInCapitals => with_provider("ACME Inc."),
            Fault::ZeroAmount => with_amount("0"),
            Fault::NegativeAmount => with_amount("-1000"),
            Fault::AmountTooLarge => with_amount("9007199254740992"),
            Fault::FractionalAmount => with_amount("1000.5"),
            Fault::UnknownCurrency => with(r#""EUR""#, r#""ZZZ""#),
            Fault::TimeWithoutOffset => with(r#"00Z""#, r#"00""#),
            Fault::OtherProvider => with_provider("somebody-else"),
            Fault::ForeignType => with(r#""payment.succeeded""#, r#""order.created""#),
            Fault::TooLarge => {
                let pad = format!(r#"00Z","pad":"{}""#, "x".repeat(BODY_MAX));
                with(r#"00Z""#, &pad)
            }
        };
        spoiled.into_bytes()
    }
}
