//! The fields of a payment event, read from their raw JSON text.

use super::{NotUnderstood, Reason};
use crate::raw_object::RawObject;

/// The fields of a payment event.
pub(super) const NAMES: [&str; 9] = [
    "event_id",
    "type",
    "order_id",
    "provider",
    "transaction_id",
    "amount",
    "currency",
    "occurred_at",
    "livemode",
];

/// The raw JSON text of the known fields.
pub(crate) struct Fields<'a>(RawObject<'a>);

impl<'a> Fields<'a> {
    /// Reads a payment event.
    pub(super) fn read(text: &'a str) -> Result<Self, NotUnderstood> {
        Self::of(text, &NAMES)
    }

    /// Reads an object whose known members have these names.
    pub(crate) fn of(text: &'a str, names: &'static [&'static str]) -> Result<Self, NotUnderstood> {
        let object = RawObject::read(text, names).map_err(|error| {
            if error.is_data() {
                NotUnderstood::new(Reason::WrongType, "must be a JSON object")
            } else {
                NotUnderstood::new(Reason::InvalidJson, error.to_string())
            }
        })?;
        match object.repeated.first() {
            Some(name) => Err(NotUnderstood::new(
                Reason::DuplicateKey,
                format!("{name}: appears twice"),
            )),
            None => Ok(Self(object)),
        }
    }

    /// The raw text of a field, if it is there.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a str> {
        self.0.get(name).map(serde_json::value::RawValue::get)
    }

    /// The raw text of a field that must be there.
    fn required(&self, name: &'static str) -> Result<&'a str, NotUnderstood> {
        self.get(name)
            .ok_or_else(|| NotUnderstood::new(Reason::MissingField, format!("{name}: is required")))
    }

    /// A field that must be a string.
    pub(crate) fn string(&self, name: &'static str) -> Result<String, NotUnderstood> {
        let raw = self.required(name)?;
        if !raw.starts_with('"') {
            return Err(wrong_type(name, "a string"));
        }
        // A raw string may still contain an invalid escape, such as a lone surrogate.
        serde_json::from_str(raw)
            .map_err(|error| NotUnderstood::new(Reason::InvalidJson, format!("{name}: {error}")))
    }

    /// A field that must be an integer, written as one. `None` if it is out of every range.
    pub(super) fn integer(&self, name: &'static str) -> Result<Option<i64>, NotUnderstood> {
        let raw = self.required(name)?;
        let digits = raw.strip_prefix('-').unwrap_or(raw);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong_type(name, "an integer without fraction or exponent"));
        }
        Ok(raw.parse().ok())
    }

    /// A field that must be a boolean, if it is there.
    pub(crate) fn boolean(&self, name: &'static str) -> Result<Option<bool>, NotUnderstood> {
        match self.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong_type(name, "true or false")),
        }
    }

    /// The same, with null counting as absent.
    pub(super) fn optional_boolean(
        &self,
        name: &'static str,
    ) -> Result<Option<bool>, NotUnderstood> {
        match self.get(name) {
            Some("null") => Ok(None),
            _ => self.boolean(name),
        }
    }
}

fn wrong_type(name: &str, wanted: &str) -> NotUnderstood {
    NotUnderstood::new(Reason::WrongType, format!("{name}: must be {wanted}"))
}
