//! The members of a command, each validated by its text; all errors are collected.

use serde_json::value::RawValue;

use crate::http::answer::field_error::FieldError;
use crate::raw_object::RawObject;

/// Errors listed at most, so that an answer doesn't grow with the request.
const ERRORS_MAX: usize = 32;

/// Characters of an unknown member's name that an error repeats at most.
const NAME_CHARS_MAX: usize = 64;

/// A body that is read member by member, with the errors so far.
#[derive(Debug)]
pub(crate) struct Fields<'de> {
    object: RawObject<'de>,
    errors: Vec<FieldError>,
}

impl<'de> Fields<'de> {
    /// Parses a body that may have only these members.
    pub(crate) fn parse(
        body: &'de [u8],
        known: &'static [&'static str],
    ) -> Result<Self, FieldError> {
        let text =
            std::str::from_utf8(body).map_err(|_| FieldError::new("", "is not valid UTF-8"))?;
        let object = RawObject::read(text, known).map_err(|error| {
            let detail = if error.is_data() {
                "must be a JSON object".to_owned()
            } else {
                format!(
                    "is not valid JSON (line {}, column {})",
                    error.line(),
                    error.column()
                )
            };
            FieldError::new("", detail)
        })?;
        let unknown = object
            .unknown
            .iter()
            .map(|name| fault(name, "is not a known field"));
        let repeated = object
            .repeated
            .iter()
            .map(|name| fault(name, "is given more than once"));
        let errors = repeated.chain(unknown).collect();
        Ok(Self { object, errors })
    }

    /// A required member.
    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Option<T> {
        if let Some(value) = self.value(name) {
            return self.keep(name, read(value));
        }
        self.fault(name, "is missing");
        None
    }

    /// An optional member; null means absent.
    pub(crate) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&RawValue) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(name).filter(|value| value.get() != "null")?;
        self.keep(name, read(value))
    }

    /// The command, or all errors that were found.
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

    fn keep<T>(&mut self, name: &str, read: Result<T, String>) -> Option<T> {
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
