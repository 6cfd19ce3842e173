//! The query of a list: its filters, and which page.

use order_store::Place;

use crate::http::answer::cursor::{Cursor, Scope};
use crate::http::answer::error::ApiError;
use crate::http::request::page::PageQuery;

/// Where a page of a filtered list begins, and how many items it may have.
#[derive(Debug)]
pub(crate) struct ListQuery<F> {
    pub(crate) filter: F,
    pub(crate) page: PageQuery,
}

/// The filters of a list.
pub(crate) trait Filter {
    /// The operation, to which a cursor is bound together with the filters.
    const LIST: &'static str;

    /// The filters that were given, as text.
    fn texts(&self) -> Vec<Option<String>>;
}

impl<F: Filter> ListQuery<F> {
    /// What a cursor of this list is bound to.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(F::LIST, &self.filter.texts())
    }

    /// Where the page begins.
    pub(crate) fn from<C: Cursor>(&self, scope: &Scope) -> Result<Place<C>, ApiError> {
        self.page.from(scope)
    }
}

/// Filters whose words are parsed, and compared by them.
pub(crate) mod word {
    use std::fmt::Display;
    use std::str::FromStr;

    use crate::http::request::query::Given;

    pub(crate) fn read<T: FromStr<Err: Display>>(
        given: &mut Given,
        name: &'static str,
    ) -> Option<T> {
        given.optional(name, str::parse)
    }

    pub(crate) fn text(value: &impl Display) -> String {
        value.to_string()
    }
}

/// Filters by time.
pub(crate) mod time {
    use ::time::OffsetDateTime;

    use crate::http::request::query::Given;

    pub(crate) fn read(given: &mut Given, name: &'static str) -> Option<OffsetDateTime> {
        given.time(name)
    }

    /// In nanoseconds: two times of one microsecond may be two filters.
    pub(crate) fn text(value: &OffsetDateTime) -> String {
        value.unix_timestamp_nanos().to_string()
    }
}

/// Reads and documents the filters of a list: each with its schema, how it is read, and what it
/// says to callers.
macro_rules! filters {
    ($list:literal: $filter:ident { $($name:ident: $schema:ident, $kind:ident, $about:literal;)+ }) => {
        impl crate::http::request::list::Filter for $filter {
            const LIST: &'static str = $list;

            fn texts(&self) -> Vec<Option<String>> {
                use crate::http::request::list;
                vec![$(self.$name.as_ref().map(list::$kind::text)),+]
            }
        }

        impl crate::http::request::query::Parameters
            for crate::http::request::list::ListQuery<$filter>
        {
            const NAMES: &'static [&'static str] = &[$(stringify!($name),)+ "limit", "cursor"];

            fn read(given: &mut crate::http::request::query::Given) -> Option<Self> {
                use crate::http::request::{list, page::PageQuery};
                let filter = $filter {
                    $($name: list::$kind::read(given, stringify!($name)),)+
                };
                let page = PageQuery::read(given)?;
                Some(Self { filter, page })
            }
        }

        impl utoipa::IntoParams for crate::http::request::list::ListQuery<$filter> {
            fn into_params(
                place: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                use crate::http::request::{page::PageQuery, query::documented};
                use utoipa::ToSchema as _;
                let schema = utoipa::openapi::Ref::from_schema_name;
                let mut parameters = vec![$(documented(
                    stringify!($name),
                    schema(crate::wire::schemas::$schema::name()),
                    $about,
                )),+];
                parameters.extend(PageQuery::into_params(place));
                parameters
            }
        }
    };
}
pub(crate) use filters;
