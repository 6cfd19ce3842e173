//! `GET /v1/orders`.

use axum::Json;
use axum::extract::State;
use order_fsm::OrderStatus;
use order_store::{OrderFilter, Store};
use time::OffsetDateTime;
use utoipa::openapi::Ref;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{OrderList, PageQuery};
use crate::http::problem_docs::problems;
use crate::http::query::{Given, Parameters, Params, documented};
use crate::http::schemas;
use crate::time_format;

/// Which orders, and which page of them.
#[derive(Debug)]
pub(crate) struct OrdersQuery {
    filter: OrderFilter,
    page: PageQuery,
}

impl Parameters for OrdersQuery {
    const NAMES: &'static [&'static str] = &[
        "status",
        "created_after",
        "created_before",
        "limit",
        "cursor",
    ];

    fn read(given: &mut Given) -> Option<Self> {
        let filter = OrderFilter {
            status: given.optional("status", str::parse),
            created_after: given.optional("created_after", time_format::parse),
            created_before: given.optional("created_before", time_format::parse),
        };
        Some(Self {
            filter,
            page: PageQuery::read(given)?,
        })
    }
}

impl OrdersQuery {
    fn scope(&self) -> Scope {
        let OrderFilter {
            status,
            created_after,
            created_before,
        } = &self.filter;
        // With nanoseconds: two times of one microsecond may be two filters.
        let time = |at: &Option<OffsetDateTime>| at.map(|at| at.unix_timestamp_nanos().to_string());
        let (after, before) = (time(created_after), time(created_before));
        let filters = [
            status.map(OrderStatus::as_str),
            after.as_deref(),
            before.as_deref(),
        ];
        Scope::new("list_orders", &filters)
    }
}

impl IntoParams for OrdersQuery {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let name = |name| Ref::from_schema_name(name);
        let mut parameters = vec![
            documented(
                "status",
                name(schemas::OrderStatus::name()),
                "Only in this status.",
            ),
            documented(
                "created_after",
                name(schemas::Time::name()),
                "Only created at this time or later. A plus in a query is written `%2B`.",
            ),
            documented(
                "created_before",
                name(schemas::Time::name()),
                "Only created before this time.",
            ),
        ];
        parameters.extend(PageQuery::into_params(place));
        parameters
    }
}

problems!(InvalidRequest, Internal, Unavailable);

/// List orders
///
/// Oldest first. A page looks at a bounded number of orders: with `status` it may be short or even
/// empty; only a null `next_cursor` ends the list.
#[utoipa::path(
    get,
    path = "/v1/orders",
    operation_id = "list_orders",
    tag = "orders",
    security(("token" = ["orders:read"])),
    params(OrdersQuery),
    responses(
        (status = 200, description = "A page of orders.", body = OrderList),
        Problems,
    ),
)]
pub(crate) async fn list_orders(
    State(store): State<Store>,
    Params(query): Params<OrdersQuery>,
) -> Result<Json<OrderList>, ApiError> {
    let scope = query.scope();
    let after = query.page.after(&scope)?;
    let page = store
        .list_orders(query.filter, after, query.page.limit())
        .await?;
    Ok(Json(OrderList::of(&scope, page.orders, page.next)))
}
