//! One pass over a JSON object: the known members by their raw text, the others skipped.
//!
//! The raw text is kept because a number must be judged as it is written: through a parsed value
//! `1000.0` and `1e3` would look like integers, and 2^53+1 like 2^53. A derived reader would also
//! stop at the first fault.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Names of unknown members that are remembered at most; the rest must still be JSON.
const UNKNOWN_MAX: usize = 32;

/// An object taken apart.
#[derive(Debug, Default)]
pub struct RawObject<'de> {
    /// Known members as they are written; of a repeated one the first.
    pub members: Vec<(&'static str, &'de RawValue)>,
    /// Known members that stand there again.
    pub repeated: Vec<&'static str>,
    /// Members nobody knows.
    pub unknown: Vec<String>,
}

impl<'de> RawObject<'de> {
    /// Reads an object whose known members have these names.
    ///
    /// # Errors
    /// A data error if the text is JSON but no object, another one if it is no JSON.
    pub fn read(text: &'de str, known: &'static [&'static str]) -> Result<Self, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        let object = Object { known }.deserialize(&mut json).map_err(|error| {
            // "No object" is said at the first character; the rest may be no JSON at all.
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
