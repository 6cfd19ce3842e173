//! Query parameters: each at most once, no unknown ones; all errors are reported together.

use std::fmt::Display;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use time::OffsetDateTime;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};

use crate::http::answer::error::ApiError;
use crate::http::answer::field_error::FieldError;
use crate::time_format;

/// Errors listed at most.
const ERRORS_MAX: usize = 32;

/// The query of an operation.
pub(crate) trait Parameters: Sized {
    /// The parameters it may have.
    const NAMES: &'static [&'static str];

    /// Reads them; errors are collected in `given`.
    fn read(given: &mut Given) -> Option<Self>;
}

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Given {
    pairs: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl Given {
    /// An optional parameter. `None` if it is absent or invalid; the error is kept.
    pub(crate) fn optional<T, E: Display>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let (_, text) = self.pairs.iter().find(|(given, _)| given == name)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.errors
                    .push(FieldError::new(format!("?{name}"), why.to_string()));
                None
            }
        }
    }

    /// An optional time.
    pub(crate) fn time(&mut self, name: &'static str) -> Option<OffsetDateTime> {
        self.optional(name, |text| {
            time_format::parse(text).map_err(|why| {
                if plus_was_meant(text) {
                    format!("{why}; write a plus in a query as %2B")
                } else {
                    why.to_string()
                }
            })
        })
    }

    fn check_names(&mut self, known: &[&str]) {
        for (index, (name, _)) in self.pairs.iter().enumerate().take(ERRORS_MAX) {
            let shown: String = name.chars().take(64).collect();
            if !known.contains(&name.as_str()) {
                self.errors.push(FieldError::new(
                    format!("?{shown}"),
                    "is not a known parameter",
                ));
            } else if self.pairs[..index]
                .iter()
                .any(|(earlier, _)| earlier == name)
            {
                self.errors.push(FieldError::new(
                    format!("?{shown}"),
                    "is given more than once",
                ));
            }
        }
    }
}

/// Whether the text is a time whose plus was decoded as a space.
fn plus_was_meant(text: &str) -> bool {
    let offset = text.rsplit_once(' ');
    offset.is_some_and(|(time, offset)| time_format::parse(&format!("{time}+{offset}")).is_ok())
}

/// The extractor.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: Parameters, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| ApiError::invalid("?", "can't be parsed"))?;
        let mut given = Given {
            pairs,
            errors: Vec::new(),
        };
        given.check_names(T::NAMES);
        match T::read(&mut given) {
            Some(read) if given.errors.is_empty() => Ok(Self(read)),
            _ => Err(ApiError::Invalid(given.errors)),
        }
    }
}

/// No parameters.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Parameters for Nothing {
    const NAMES: &'static [&'static str] = &[];

    fn read(_: &mut Given) -> Option<Self> {
        Some(Self)
    }
}

/// Documents an optional parameter. Not derived, because a derived one could be null, which a query
/// can't express.
pub(crate) fn documented(
    name: &str,
    schema: impl Into<RefOr<Schema>>,
    description: &str,
) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}
