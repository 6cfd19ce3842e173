//! Query parameters: each at most once, no unknown ones, all faults together.

use std::fmt::Display;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};

use super::error::{ApiError, FieldError};

/// Faults that are listed at most.
const ERRORS_MAX: usize = 32;

/// The query of an operation.
pub(crate) trait Parameters: Sized {
    /// The parameters it may have.
    const NAMES: &'static [&'static str];

    /// Reads them; what is wrong with them stays in `given`.
    fn read(given: &mut Given) -> Option<Self>;
}

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Given {
    pairs: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl Given {
    /// A parameter that may be left out. `None` is for absent; a faulty one is remembered.
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

    fn check_names(&mut self, known: &[&str]) {
        for (index, (name, _)) in self.pairs.iter().enumerate().take(ERRORS_MAX) {
            let shown: String = name.chars().take(64).collect();
            if !known.contains(&name.as_str()) {
                self.errors
                    .push(FieldError::new(format!("?{shown}"), "is unknown"));
            } else if self.pairs[..index]
                .iter()
                .any(|(earlier, _)| earlier == name)
            {
                self.errors
                    .push(FieldError::new(format!("?{shown}"), "is given twice"));
            }
        }
    }
}

/// The extractor.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: Parameters, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
            .map_err(|_| ApiError::invalid("?", "can't be read"))?;
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

/// No parameters at all.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Parameters for Nothing {
    const NAMES: &'static [&'static str] = &[];

    fn read(_: &mut Given) -> Option<Self> {
        Some(Self)
    }
}

/// Documents a parameter that may be left out. Not derived: a derived one could be null, which
/// no query can say.
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
