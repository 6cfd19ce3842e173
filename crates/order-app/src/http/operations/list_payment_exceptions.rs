//! `GET /v1/payment-exceptions`.

use axum::Json;
use axum::extract::State;
use order_fsm::{OrderId, Verdict};
use order_store::{ExceptionFilter, ExceptionState, Store};
use utoipa::openapi::Ref;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{ExceptionList, PageQuery};
use crate::http::problem_docs::problems;
use crate::http::query::{Given, Parameters, Params, documented};
use crate::http::schemas;

/// Which exceptions, and which page of them.
#[derive(Debug)]
pub(crate) struct ExceptionsQuery {
    filter: ExceptionFilter,
    page: PageQuery,
}

impl Parameters for ExceptionsQuery {
    const NAMES: &'static [&'static str] = &["state", "verdict", "order_id", "limit", "cursor"];

    fn read(given: &mut Given) -> Option<Self> {
        let filter = ExceptionFilter {
            state: given.optional("state", str::parse),
            verdict: given.optional("verdict", str::parse),
            order_id: given.optional("order_id", str::parse),
        };
        Some(Self {
            filter,
            page: PageQuery::read(given)?,
        })
    }
}

impl ExceptionsQuery {
    fn scope(&self) -> Scope {
        let ExceptionFilter {
            state,
            verdict,
            order_id,
        } = &self.filter;
        let filters = [
            state.map(ExceptionState::as_str),
            verdict.map(Verdict::as_str),
            order_id.as_ref().map(OrderId::as_str),
        ];
        Scope::new("list_payment_exceptions", &filters)
    }
}

impl IntoParams for ExceptionsQuery {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let name = |name| Ref::from_schema_name(name);
        let mut parameters = vec![
            documented(
                "state",
                name(schemas::ExceptionState::name()),
                "Only in this state.",
            ),
            documented(
                "verdict",
                name(schemas::Verdict::name()),
                "Only with this verdict.",
            ),
            documented("order_id", name(schemas::Id::name()), "Only of this order."),
        ];
        parameters.extend(PageQuery::into_params(place));
        parameters
    }
}

problems!(InvalidRequest, Internal, Unavailable);

/// List payment exceptions
///
/// What needs a person, oldest first.
#[utoipa::path(
    get,
    path = "/v1/payment-exceptions",
    operation_id = "list_payment_exceptions",
    tag = "ops",
    security(("token" = ["ops"])),
    params(ExceptionsQuery),
    responses(
        (status = 200, description = "A page of exceptions.", body = ExceptionList),
        Problems,
    ),
)]
pub(crate) async fn list_payment_exceptions(
    State(store): State<Store>,
    Params(query): Params<ExceptionsQuery>,
) -> Result<Json<ExceptionList>, ApiError> {
    let scope = query.scope();
    let after = query.page.after(&scope)?;
    let exceptions = store
        .list_exceptions(query.filter, after, query.page.fetch())
        .await?;
    Ok(Json(query.page.cut(&scope, exceptions)))
}
