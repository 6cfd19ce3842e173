//! `POST /v1/reconciliations`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use order_store::{RunCounts, RunStart, RunState, StartedBy, Store};
use utoipa::ToSchema;

use crate::http::Reconciliation;
use crate::http::body::{Command, Optional};
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::idempotency::IdempotencyKey;
use crate::http::problem_docs::problems;
use crate::http::query::{Nothing, Params};
use crate::http::values;
use crate::http::wire_runs::Run;
use crate::reconcile;

/// How a run is made.
#[derive(Debug, Default, ToSchema)]
pub(crate) struct CreateReconciliation {
    /// Roll everything back: the counts and findings say what would happen.
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

problems!(
    InvalidRequest,
    AlreadyRunning,
    IdempotencyKeyInUse,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    Internal,
    Unavailable,
);

/// Begin a reconciliation
///
/// Asks the payment service about due orders: heals what was lost, cancels what can't be paid any
/// more. One run works at a time; read it to see how far it is.
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
            description = "The run, begun.",
            body = Run,
            headers(("Location" = String, description = "Where the run is read.")),
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
    let run = match reconcile::begin(&store, StartedBy::Api, dry_run).await? {
        RunStart::Started(run) => run,
        RunStart::AlreadyRunning { id } => return Err(ApiError::AlreadyRunning(id)),
    };
    if reconciliation.runs.try_send(run.clone()).is_err() {
        // Nobody takes it over: the service is stopping.
        let (id, nothing) = (run.id.clone(), RunCounts::default());
        store
            .end_run(id, RunState::Failed, nothing, Vec::new())
            .await?;
        return Err(ApiError::Unavailable);
    }
    let location = [(header::LOCATION, format!("/v1/reconciliations/{}", run.id))];
    Ok((StatusCode::ACCEPTED, location, Json(run.into())))
}
