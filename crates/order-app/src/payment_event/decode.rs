//! From the bytes of a message to a payment fact.

use std::str::FromStr;

use order_fsm::{Amount, Content, OrderId, PaymentKey, PaymentKind};
use order_store::{PaymentFact, Source};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::fields::Fields;
use super::{NotUnderstood, Reason};
use crate::time_format;

/// The largest body that is read, and how much of a larger one is kept.
pub const BODY_MAX: usize = 64 * 1024;

/// Decodes a message.
///
/// `subject_provider` is what follows the inbound subject: the provider that published it.
///
/// # Errors
/// With the first fault found, in the order: size, UTF-8, JSON, keys, then the fields as the
/// contract lists them, then the provider of the subject.
pub fn decode(subject_provider: &str, body: &[u8]) -> Result<PaymentFact, NotUnderstood> {
    if body.len() > BODY_MAX {
        return Err(too_large(body));
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| NotUnderstood::new(Reason::InvalidUtf8, error.to_string()))?;
    let fields = Fields::read(text)?;

    let event_id = parsed(&fields, "event_id", Reason::InvalidId)?;
    let kind = kind(&fields)?;
    let order_id = parsed(&fields, "order_id", Reason::InvalidId)?;
    let provider = parsed(&fields, "provider", Reason::InvalidProvider)?;
    let transaction_id = parsed(&fields, "transaction_id", Reason::InvalidId)?;
    let content = content(&fields, order_id)?;
    let occurred_at = occurred_at(&fields)?;
    let livemode = fields.optional_boolean("livemode")?.unwrap_or(true);

    let key = PaymentKey {
        provider,
        transaction_id,
        kind,
    };
    if key.provider.as_str() != subject_provider {
        let detail = format!(
            "provider: is {}, the subject says {subject_provider:?}",
            key.provider
        );
        return Err(NotUnderstood::new(Reason::ProviderMismatch, detail));
    }
    Ok(PaymentFact {
        key,
        event_id: Some(event_id),
        content,
        occurred_at,
        livemode,
        source: Source::Event,
    })
}

fn kind(fields: &Fields<'_>) -> Result<PaymentKind, NotUnderstood> {
    let text = fields.string("type")?;
    text.strip_prefix("payment.")
        .and_then(|name| name.parse().ok())
        .ok_or_else(|| {
            let detail = "type: must be payment.<kind>, the kind being 1 to 32 of a-z 0-9 . _ -";
            NotUnderstood::new(Reason::UnsupportedType, detail)
        })
}

/// Amount and currency, of this order.
pub(crate) fn content(fields: &Fields<'_>, order_id: OrderId) -> Result<Content, NotUnderstood> {
    Ok(Content {
        order_id,
        amount: amount(fields)?,
        currency: parsed(fields, "currency", Reason::InvalidCurrency)?,
    })
}

/// The time of the payment, as reported.
pub(crate) fn occurred_at(fields: &Fields<'_>) -> Result<OffsetDateTime, NotUnderstood> {
    time_format::parse(&fields.string("occurred_at")?)
        .map_err(|error| invalid(Reason::InvalidTime, "occurred_at", &error))
}

fn amount(fields: &Fields<'_>) -> Result<Amount, NotUnderstood> {
    // An integer that doesn't fit into i64 is out of range as well.
    let minor_units = fields.integer("amount")?.unwrap_or(0);
    Amount::try_from(minor_units).map_err(|error| invalid(Reason::InvalidAmount, "amount", &error))
}

/// A field that must be a string of this kind.
pub(crate) fn parsed<T>(
    fields: &Fields<'_>,
    name: &'static str,
    reason: Reason,
) -> Result<T, NotUnderstood>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    fields
        .string(name)?
        .parse()
        .map_err(|error: T::Err| invalid(reason, name, &error))
}

fn invalid(reason: Reason, name: &str, error: &dyn std::fmt::Display) -> NotUnderstood {
    NotUnderstood::new(reason, format!("{name}: {error}"))
}

fn too_large(body: &[u8]) -> NotUnderstood {
    let hex = hex::encode(Sha256::digest(body));
    let detail = format!(
        "the body has {} bytes, {BODY_MAX} are allowed and kept; sha256 of all: {hex}",
        body.len()
    );
    NotUnderstood::new(Reason::TooLarge, detail)
}
