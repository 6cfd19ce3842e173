//! `GET /v1/payments`.

use axum::Json;
use axum::extract::State;
use order_fsm::{Provider, TransactionId, Verdict};
use order_store::{PaymentFilter, Store};
use utoipa::openapi::Ref;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{PageQuery, PaymentList};
use crate::http::problem_docs::problems;
use crate::http::query::{Given, Parameters, Params, documented};
use crate::http::schemas;

/// Which payments, and which page of them.
#[derive(Debug)]
pub(crate) struct PaymentsQuery {
    filter: PaymentFilter,
    page: PageQuery,
}

impl Parameters for PaymentsQuery {
    const NAMES: &'static [&'static str] =
        &["provider", "transaction_id", "verdict", "limit", "cursor"];

    fn read(given: &mut Given) -> Option<Self> {
        let filter = PaymentFilter {
            provider: given.optional("provider", str::parse),
            transaction_id: given.optional("transaction_id", str::parse),
            verdict: given.optional("verdict", str::parse),
        };
        Some(Self {
            filter,
            page: PageQuery::read(given)?,
        })
    }
}

impl PaymentsQuery {
    fn scope(&self) -> Scope {
        let PaymentFilter {
            provider,
            transaction_id,
            verdict,
        } = &self.filter;
        let filters = [
            provider.as_ref().map(Provider::as_str),
            transaction_id.as_ref().map(TransactionId::as_str),
            verdict.map(Verdict::as_str),
        ];
        Scope::new("list_payments", &filters)
    }
}

impl IntoParams for PaymentsQuery {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let name = |name| Ref::from_schema_name(name);
        let mut parameters = vec![
            documented(
                "provider",
                name(schemas::Provider::name()),
                "Only of this provider.",
            ),
            documented(
                "transaction_id",
                name(schemas::Id::name()),
                "Only of this transaction.",
            ),
            documented(
                "verdict",
                name(schemas::Verdict::name()),
                "Only with this verdict.",
            ),
        ];
        parameters.extend(PageQuery::into_params(place));
        parameters
    }
}

problems!(InvalidRequest, Internal, Unavailable);

/// List payments
///
/// Which order did a transaction pay, and what waits (`verdict=WAITING_FOR_ORDER`). In the order
/// of provider, transaction and kind.
#[utoipa::path(
    get,
    path = "/v1/payments",
    operation_id = "list_payments",
    tag = "payments",
    security(("token" = ["orders:read"])),
    params(PaymentsQuery),
    responses(
        (status = 200, description = "A page of payments.", body = PaymentList),
        Problems,
    ),
)]
pub(crate) async fn list_payments(
    State(store): State<Store>,
    Params(query): Params<PaymentsQuery>,
) -> Result<Json<PaymentList>, ApiError> {
    let scope = query.scope();
    let after = query.page.after(&scope)?;
    let payments = store
        .list_payments(query.filter, after, query.page.fetch())
        .await?;
    Ok(Json(query.page.cut(&scope, payments)))
}
