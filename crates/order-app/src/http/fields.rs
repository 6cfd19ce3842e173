//! The members of a JSON object, each still in its own text.
//!
//! A derived reader can't do this: it would take `1000.0` for an integer or lose the digits that
//! told them apart, and it stops at the first fault. Here one pass finds unknown and repeated
//! members, and every value is then judged by the text that was sent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::FieldError;

/// Faults that are listed at most: an answer must not grow with the request.
const ERRORS_MAX: usize = 32;

/// Characters of an unknown member that are repeated to the caller at most.
const NAME_CHARS_MAX: usize = 64;

/// A body that is read member by member; every fault is kept until the end.
#[derive(Debug)]
pub(crate) struct Fields<'de> {
    members: Vec<(&'static str, &'de RawValue)>,
    errors: Vec<FieldError>,
}

impl<'de> Fields<'de> {
    /// Takes a body apart that may have these members and no others.
    pub(crate) fn parse(
        body: &'de [u8],
        known: &'static [&'static str],
    ) -> Result<Self, FieldError> {
        let text = std::str::from_utf8(body).map_err(|_| FieldError::new("", "is not UTF-8"))?;
        let mut json = serde_json::Deserializer::from_str(text);
        Object { known }
            .deserialize(&mut json)
            .and_then(|fields| json.end().map(|()| fields))
            .map_err(|error| {
                let detail = if error.is_data() {
                    "must be a JSON object".to_owned()
                } else {
                    format!(
                        "is not JSON (line {}, column {})",
                        error.line(),
                        error.column()
                    )
                };
                FieldError::new("", detail)
            })
    }

    /// A member that must be there.
    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Option<T> {
        if let Some(value) = self.value(name) {
            return self.judge(name, read(value));
        }
        self.fault(name, "is missing");
        None
    }

    /// A member that may be left out; null is as good as absent.
    pub(crate) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(name).filter(|value| value.get() != "null")?;
        self.judge(name, read(value))
    }

    /// What was read, unless something was wrong.
    pub(crate) fn finish<T>(mut self, read: Option<T>) -> Result<T, Vec<FieldError>> {
        self.errors.truncate(ERRORS_MAX);
        match read {
            Some(read) if self.errors.is_empty() => Ok(read),
            _ => Err(self.errors),
        }
    }

    fn value(&self, name: &str) -> Option<&'de RawValue> {
        self.members
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    fn judge<T>(&mut self, name: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|detail| self.fault(name, detail)).ok()
    }

    fn fault(&mut self, name: &str, detail: impl Into<String>) {
        self.errors.push(FieldError::new(pointer(name), detail));
    }
}

/// A JSON pointer to a member (RFC 6901).
fn pointer(name: &str) -> String {
    let mut shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    format!("/{}", shown.replace('~', "~0").replace('/', "~1"))
}

struct Object {
    known: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = Fields<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Fields<'de>, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields {
            members: Vec::new(),
            errors: Vec::new(),
        };
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let Some(known) = self.known.iter().find(|known| **known == name) else {
                map.next_value::<IgnoredAny>()?;
                // More are counted by nobody, but the rest must still be JSON.
                if fields.errors.len() < ERRORS_MAX {
                    fields.fault(&name, "is unknown");
                }
                continue;
            };
            let value = map.next_value::<&RawValue>()?;
            if fields.value(known).is_some() {
                if fields.errors.len() < ERRORS_MAX {
                    fields.fault(known, "is given twice");
                }
            } else {
                fields.members.push((known, value));
            }
        }
        Ok(fields)
    }
}
