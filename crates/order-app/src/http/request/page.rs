//! Which page of a list is asked for.

use std::convert::Infallible;

use order_store::Place;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::http::answer::cursor::{self, Cursor, Scope};
use crate::http::answer::error::ApiError;
use crate::http::request::query::{self, Given, Parameters};

const LIMIT_MAX: u32 = 200;
const LIMIT_DEFAULT: u32 = 50;

/// The parameters that every list has.
#[derive(Debug)]
pub(crate) struct PageQuery {
    limit: u32,
    cursor: Option<String>,
}

/// For lists without filters.
impl Parameters for PageQuery {
    const NAMES: &'static [&'static str] = &["limit", "cursor"];

    fn read(given: &mut Given) -> Option<Self> {
        let limit = given.optional("limit", read_limit);
        let cursor = given.optional("cursor", |text| Ok::<_, Infallible>(text.to_owned()));
        Some(Self {
            limit: limit.unwrap_or(LIMIT_DEFAULT),
            cursor,
        })
    }
}

impl PageQuery {
    /// Where the page begins.
    pub(crate) fn from<C: Cursor>(&self, scope: &Scope) -> Result<Place<C>, ApiError> {
        let Some(text) = &self.cursor else {
            return Ok(Place::START);
        };
        cursor::read(scope, text).map_err(|why| ApiError::invalid("?cursor", why.to_string()))
    }

    /// The maximum number of items.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }
}

fn read_limit(text: &str) -> Result<u32, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let limit = if digits { text.parse().ok() } else { None };
    limit
        .filter(|limit| (1..=LIMIT_MAX).contains(limit))
        .ok_or_else(|| format!("must be an integer from 1 to {LIMIT_MAX}"))
}

impl IntoParams for PageQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let limit = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(LIMIT_MAX))
            .default(Some(LIMIT_DEFAULT.into()));
        vec![
            query::documented("limit", limit, "The maximum number of items of the page."),
            query::documented(
                "cursor",
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1)),
                "The `next_cursor` of the previous page.",
            ),
        ]
    }
}
