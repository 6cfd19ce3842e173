//! Pages of lists.

use std::borrow::Cow;

use order_store::Page;
use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::answer::cursor::{self, Cursor, Scope};
use crate::wire::{DeadLetter, Exception, HistoryItem, Order, Payment, Run};

/// A page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct List<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u32>,
}

impl<W> List<W> {
    /// A page as it is answered.
    pub(crate) fn of<T: Into<W>, C: Cursor>(scope: &Scope, page: Page<T, C>) -> Self {
        Self {
            items: page.items.into_iter().map(T::into).collect(),
            next_cursor: page.next.map(|place| cursor::write(scope, &place)),
            unreadable: Some(page.unreadable).filter(|count| *count > 0),
        }
    }
}

/// A page of orders.
pub(crate) type OrderList = List<Order>;

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

/// Written by hand, because the derived schema inlines its items instead of referring to them.
impl<T: ToSchema> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        let next_cursor = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some(
                "The `cursor` of the next page; null at the end of the list.",
            ));
        let unreadable = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .description(Some(
                "How many rows of this page were left out because they can't be read (damaged, or written by a newer \
                 version). Absent if there are none. `orderd audit` lists them.",
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
            .property("unreadable", unreadable)
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
