//! `POST /v1/reconciliations`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use order_store::{RunCounts, RunStart, RunState, StartedBy, Store};
use utoipa::ToSchema;

use crate::http::Reconciliation;
use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::body::{Command, Optional};
use crate::http::request::fields::Fields;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::query::{Nothing, Params};
use crate::http::request::values;
use crate::random_id::random_id;
use crate::wire::Run;

/// The options of a run.
#[derive(Debug, Default, ToSchema)]
pub(crate) struct CreateReconciliation {
    /// Roll back all changes: counts and findings say what would happen.
    #[schema(default = false)]
    dry_run: Option<bool>,
}

impl Command for CreateReconciliation {
    const MEMBERS: &'static [&'static str] = &["dry_run"];

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            dry_run: fields.optional("dry_run", values::boolean),
        })
    }
}

command_problems!(AlreadyRunning);

/// Start a reconciliation
///
/// Asks the payment service about due orders, records lost payments and cancels orders that can't
/// be paid any more. Only one run is active at a time; read it to follow its progress.
#[utoipa::path(
    post,
    path = "/v1/reconciliations",
    operation_id = "create_reconciliation",
    tag = "ops",
    security(("token" = ["ops"])),
    params(IdempotencyKey),
    request_body = Option<CreateReconciliation>,
    responses(
        (
            status = 202,
            description = "The started run.",
            body = Run,
            headers(("Location" = String, description = "The path of the run.")),
        ),
        Problems,
    ),
)]
pub(crate) async fn create_reconciliation(
    State(store): State<Store>,
    State(reconciliation): State<Reconciliation>,
    Params(Nothing): Params<Nothing>,
    Optional(command): Optional<CreateReconciliation>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Run>), ApiError> {
    let dry_run = command.and_then(|command| command.dry_run).unwrap_or(false);
    let run = start(&store, &reconciliation, dry_run).await?;
    let location = [(header::LOCATION, format!("/v1/reconciliations/{}", run.id))];
    Ok((StatusCode::ACCEPTED, location, Json(run.into())))
}

/// Starts a run and hands it to the job that carries it out.
pub(crate) async fn start(
    store: &Store,
    reconciliation: &Reconciliation,
    dry_run: bool,
) -> Result<order_store::Run, ApiError> {
    let started = store
        .start_run(random_id(), StartedBy::Api, dry_run, reconciliation.lease)
        .await?;
    let run = match started {
        RunStart::Started(run) => run,
        RunStart::AlreadyRunning { id } => return Err(ApiError::AlreadyRunning(id)),
    };
    if reconciliation.runs.try_send(run.clone()).is_err() {
        // The job no longer takes runs: the service is stopping.
        let (id, nothing) = (run.id.clone(), RunCounts::default());
        store
            .end_run(id, RunState::Failed, nothing, Vec::new())
            .await?;
        return Err(ApiError::Unavailable);
    }
    Ok(run)
}
