//! The members of a command, each judged by the text that was sent; every fault is kept.

use serde_json::value::RawValue;

use super::error::FieldError;
use crate::raw_object::RawObject;

/// Faults that are listed at most: an answer must not grow with the request.
const ERRORS_MAX: usize = 32;

/// Characters of an unknown member that are repeated to the caller at most.
const NAME_CHARS_MAX: usize = 64;

/// A body that is read member by member; every fault is kept until the end.
#[derive(Debug)]
pub(crate) struct Fields<'de> {
    object: RawObject<'de>,
    errors: Vec<FieldError>,
}

impl<'de> Fields<'de> {
    /// Takes a body apart that may have these members and no others.
    pub(crate) fn parse(
        body: &'de [u8],
        known: &'static [&'static str],
    ) -> Result<Self, FieldError> {
        let text = std::str::from_utf8(body).map_err(|_| FieldError::new("", "is not UTF-8"))?;
        let object = RawObject::read(text, known).map_err(|error| {
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
        })?;
        let unknown = object.unknown.iter().map(|name| fault(name, "is unknown"));
        let repeated = object
            .repeated
            .iter()
            .map(|name| fault(name, "is given twice"));
        let errors = repeated.chain(unknown).collect();
        Ok(Self { object, errors })
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
        self.object.get(name)
    }

    fn judge<T>(&mut self, name: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|detail| self.fault(name, detail)).ok()
    }

    fn fault(&mut self, name: &str, detail: impl Into<String>) {
        self.errors.push(fault(name, detail));
    }
}

fn fault(name: &str, detail: impl Into<String>) -> FieldError {
    FieldError::new(pointer(name), detail)
}

/// A JSON pointer to a member (RFC 6901).
fn pointer(name: &str) -> String {
    let mut shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    format!("/{}", shown.replace('~', "~0").replace('/', "~1"))
}
