//! One pass over a JSON object: the known fields by their raw text, the others skipped.
//!
//! The raw text is kept because a number must be judged as it is written: through a parsed value
//! `1000.0` and `1e3` would look like integers, and 2^53+1 like 2^53.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{NotUnderstood, Reason};

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

/// The known fields, as they are written.
pub(super) struct Fields<'a> {
    values: [Option<&'a RawValue>; NAMES.len()],
    duplicate: Option<&'static str>,
}

impl<'a> Fields<'a> {
    /// Reads an object.
    pub(super) fn read(text: &'a str) -> Result<Self, NotUnderstood> {
        let fields: Self = serde_json::from_str(text).map_err(|error| {
            // The only data error this visitor has is "not an object".
            if error.is_data() {
                NotUnderstood::new(Reason::WrongType, "the body must be a JSON object")
            } else {
                NotUnderstood::new(Reason::InvalidJson, error.to_string())
            }
        })?;
        match fields.duplicate {
            Some(name) => Err(NotUnderstood::new(
                Reason::DuplicateKey,
                format!("{name}: stands there twice"),
            )),
            None => Ok(fields),
        }
    }

    /// The raw text of a field, if it is there.
    pub(super) fn get(&self, name: &'static str) -> Option<&'a str> {
        let index = NAMES.iter().position(|known| *known == name)?;
        self.values[index].map(RawValue::get)
    }

    /// The raw text of a field that must be there.
    pub(super) fn required(&self, name: &'static str) -> Result<&'a str, NotUnderstood> {
        self.get(name)
            .ok_or_else(|| NotUnderstood::new(Reason::MissingField, format!("{name}: is required")))
    }

    /// A field that must be a string.
    pub(super) fn string(&self, name: &'static str) -> Result<String, NotUnderstood> {
        let raw = self.required(name)?;
        if !raw.starts_with('"') {
            return Err(wrong_type(name, "a string"));
        }
        // A raw string can still hold an escape that is no character, such as a lone surrogate.
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
    pub(super) fn boolean(&self, name: &'static str) -> Result<Option<bool>, NotUnderstood> {
        match self.get(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong_type(name, "true or false")),
        }
    }
}

fn wrong_type(name: &str, wanted: &str) -> NotUnderstood {
    NotUnderstood::new(Reason::WrongType, format!("{name}: must be {wanted}"))
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields {
            values: [None; NAMES.len()],
            duplicate: None,
        };
        while let Some(Key(key)) = map.next_key()? {
            match NAMES.iter().position(|name| *name == key) {
                Some(index) => {
                    let value = map.next_value()?;
                    if fields.values[index].replace(value).is_some() {
                        fields.duplicate = Some(NAMES[index]);
                    }
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(fields)
    }
}

/// A key, unescaped: `"order\u005fid"` is `order_id`.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}
