//! Reads a JSON object in one pass: keeps the raw text of known members, and skips the others.
//!
//! The raw text is kept because a number must be checked as it is written: as parsed values,
//! `1000.0` and `1e3` would look like integers, and 2^53+1 like 2^53. A derived `Deserialize` would
//! also stop at the first fault.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The most names of unknown members that are remembered.
const UNKNOWN_MAX: usize = 32;

/// The members of an object.
#[derive(Debug, Default)]
pub struct RawObject<'de> {
    /// The raw text of known members; of a repeated one, the first.
    pub members: Vec<(&'static str, &'de RawValue)>,
    /// Known members that appear more than once.
    pub repeated: Vec<&'static str>,
    /// The names of unknown members.
    pub unknown: Vec<String>,
}

impl<'de> RawObject<'de> {
    /// Reads an object whose known members have these names.
    ///
    /// # Errors
    /// A data error if the text is JSON but not an object, another error if it isn't JSON.
    pub fn read(text: &'de str, known: &'static [&'static str]) -> Result<Self, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        let object = Object { known }.deserialize(&mut json).map_err(|error| {
            // The data error comes at the first character; the rest may not be JSON at all.
            match serde_json::from_str::<IgnoredAny>(text) {
                Ok(IgnoredAny) => error,
                Err(no_json) => no_json,
            }
        })?;
        json.end()?;
        Ok(object)
    }

    /// The raw text of a known member, if it is there.
    pub fn get(&self, name: &str) -> Option<&'de RawValue> {
        self.members
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }
}

struct Object {
    known: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Object {
    type Value = RawObject<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object {
    type Value = RawObject<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = RawObject::default();
        while let Some(Key(name)) = map.next_key()? {
            let Some(known) = self.known.iter().copied().find(|known| *known == name) else {
                map.next_value::<IgnoredAny>()?;
                if object.unknown.len() < UNKNOWN_MAX {
                    object.unknown.push(name.into_owned());
                }
                continue;
            };
            let value = map.next_value::<&RawValue>()?;
            if object.get(known).is_none() {
                object.members.push((known, value));
            } else if !object.repeated.contains(&known) {
                object.repeated.push(known);
            }
        }
        Ok(object)
    }
}

/// A name, unescaped: `"order\u005fid"` is `order_id`.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
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
