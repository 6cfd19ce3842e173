//! Pages of lists.

use std::borrow::Cow;
use std::convert::Infallible;

use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::cursor::{self, Listed, Place, Scope};
use super::error::ApiError;
use super::query::{self, Given, Parameters};
use super::wire::{HistoryItem, Payment};
use super::wire_ops::{DeadLetter, Exception};
use super::wire_runs::Run;

const LIMIT_MAX: u32 = 200;
const LIMIT_DEFAULT: u32 = 50;

/// Which page is asked for: the parameters that every list has.
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
    /// The place after which the page begins.
    pub(crate) fn after<P: Place>(&self, scope: &Scope) -> Result<Option<P>, ApiError> {
        let place = self
            .cursor
            .as_ref()
            .map(|text| cursor::read(scope, text))
            .transpose();
        place.map_err(|why| ApiError::invalid("?cursor", why.to_string()))
    }

    /// How many to fetch: one more than fit says whether another page follows.
    pub(crate) fn fetch(&self) -> u32 {
        self.limit + 1
    }

    /// Makes a page of what was fetched.
    pub(crate) fn cut<T: Listed, W: From<T>>(&self, scope: &Scope, mut fetched: Vec<T>) -> List<W> {
        let fits = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let more = fetched.len() > fits;
        fetched.truncate(fits);
        let last = fetched.last().filter(|_| more);
        let next_cursor = last.map(|item| cursor::write(scope, &item.place()));
        List {
            items: fetched.into_iter().map(W::from).collect(),
            next_cursor,
        }
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
            query::documented("limit", limit, "How many items a page has at most."),
            query::documented(
                "cursor",
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1)),
                "The `next_cursor` of the page before.",
            ),
        ]
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

/// A page of payments.
pub(crate) type PaymentList = List<Payment>;

/// A page of a history.
pub(crate) type HistoryItemList = List<HistoryItem>;

/// A page of exceptions.
pub(crate) type ExceptionList = List<Exception>;

/// A page of runs.
pub(crate) type RunList = List<Run>;

/// A page of dead letters.
pub(crate) type DeadLetterList = List<DeadLetter>;

/// By hand, because the derived one repeats its items instead of referring to them.
impl<T: ToSchema> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        let next_cursor = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some(
                "What to give as `cursor` for the next page; null at the end.",
            ));
        ObjectBuilder::new()
            .description(Some("A page of a list."))
            .property(
                "items",
                ArrayBuilder::new().items(Ref::from_schema_name(T::name())),
            )
            .required("items")
            .property("next_cursor", next_cursor)
            .required("next_cursor")
            .into()
    }
}

impl<T: ToSchema> ToSchema for List<T> {
    fn name() -> Cow<'static, str> {
        format!("{}List", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}
