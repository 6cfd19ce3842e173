//! `GET /v1/dead-letters`.

use axum::Json;
use axum::extract::State;
use order_store::{LetterState, Store};
use utoipa::openapi::Ref;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};

use crate::http::cursor::Scope;
use crate::http::error::ApiError;
use crate::http::page::{DeadLetterList, PageQuery};
use crate::http::problem_docs::problems;
use crate::http::query::{Given, Parameters, Params, documented};
use crate::http::schemas;

/// Which dead letters, and which page of them.
#[derive(Debug)]
pub(crate) struct LettersQuery {
    state: Option<LetterState>,
    page: PageQuery,
}

impl Parameters for LettersQuery {
    const NAMES: &'static [&'static str] = &["state", "limit", "cursor"];

    fn read(given: &mut Given) -> Option<Self> {
        let state = given.optional("state", str::parse);
        Some(Self {
            state,
            page: PageQuery::read(given)?,
        })
    }
}

impl IntoParams for LettersQuery {
    fn into_params(place: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let state = Ref::from_schema_name(schemas::LetterState::name());
        let mut parameters = vec![documented("state", state, "Only in this state.")];
        parameters.extend(PageQuery::into_params(place));
        parameters
    }
}

problems!(InvalidRequest, Internal, Unavailable);

/// List dead letters
///
/// Messages that nobody understood, oldest first.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    operation_id = "list_dead_letters",
    tag = "ops",
    security(("token" = ["ops"])),
    params(LettersQuery),
    responses(
        (status = 200, description = "A page of dead letters.", body = DeadLetterList),
        Problems,
    ),
)]
pub(crate) async fn list_dead_letters(
    State(store): State<Store>,
    Params(query): Params<LettersQuery>,
) -> Result<Json<DeadLetterList>, ApiError> {
    let scope = Scope::new("list_dead_letters", &[query.state.map(LetterState::as_str)]);
    let after = query.page.after(&scope)?;
    let letters = store
        .list_dead_letters(query.state, after, query.page.fetch())
        .await?;
    Ok(Json(query.page.cut(&scope, letters)))
}
