//! `POST /v1/dead-letters/{id}/replay`.

use axum::Json;
use axum::extract::State;
use order_fsm::Verdict;
use order_store::{DeadLetter, Replayed, Store};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, PartialSchema};

use crate::http::InboundSubject;
use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::body::{Command, Optional};
use crate::http::request::fields::Fields;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::path::DigestPath;
use crate::http::request::query::{Given, Parameters, Params, documented};
use crate::payment_event::decode;
use crate::wire::Replay;

/// The body to use instead of the dead letter's own.
#[derive(Debug, ToSchema)]
pub(crate) struct ReplayDeadLetter {
    /// The corrected event.
    #[schema(value_type = Option<Object>)]
    body: Option<String>,
}

impl Command for ReplayDeadLetter {
    const MEMBERS: &'static [&'static str] = &["body"];

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            body: fields.optional("body", object),
        })
    }
}

fn object(value: &RawValue) -> Result<String, String> {
    let text = value.get();
    if text.starts_with('{') {
        Ok(text.to_owned())
    } else {
        Err("must be an object".to_owned())
    }
}

/// The options of a replay.
#[derive(Debug)]
pub(crate) struct ReplayQuery {
    dry_run: bool,
}

impl Parameters for ReplayQuery {
    const NAMES: &'static [&'static str] = &["dry_run"];

    fn read(given: &mut Given) -> Option<Self> {
        let dry_run = given.optional("dry_run", str::parse).unwrap_or(false);
        Some(Self { dry_run })
    }
}

impl IntoParams for ReplayQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![documented(
            "dry_run",
            bool::schema(),
            "Roll back all changes; only report what would happen.",
        )]
    }
}

command_problems!(NotFound, AlreadyClosed);

/// Replay a dead letter
///
/// Processed like a message, in one transaction with the dead letter's state. If it still can't be
/// processed, the answer is 400 with the reason, and the dead letter stays open.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/replay",
    operation_id = "replay_dead_letter",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath, ReplayQuery, IdempotencyKey),
    request_body = Option<ReplayDeadLetter>,
    responses(
        (status = 200, description = "The result, or with `dry_run` the expected one.", body = Replay),
        Problems,
    ),
)]
pub(crate) async fn replay_dead_letter(
    State(store): State<Store>,
    State(inbound): State<InboundSubject>,
    DigestPath(id): DigestPath,
    Params(query): Params<ReplayQuery>,
    Optional(command): Optional<ReplayDeadLetter>,
) -> Result<Json<Replay>, ApiError> {
    let corrected = command.and_then(|command| command.body);
    let verdict = replay(&store, &inbound, id, corrected.as_deref(), query.dry_run).await?;
    Ok(Json(Replay::new(verdict, query.dry_run)))
}

/// Replays a dead letter with its own body, or a corrected one.
pub(crate) async fn replay(
    store: &Store,
    inbound: &InboundSubject,
    id: String,
    corrected: Option<&str>,
    dry_run: bool,
) -> Result<Verdict, ApiError> {
    let letter = store.get_dead_letter(id.clone()).await?;
    let letter = letter.ok_or_else(|| ApiError::NotFound("dead letter", id.clone()))?;
    if letter.state != order_store::LetterState::Open {
        return Err(not_open(letter.state));
    }
    let body = corrected.map_or(letter.body.as_slice(), str::as_bytes);
    let fact = decode(provider(&letter, inbound), body).map_err(|fault| {
        let pointer = if corrected.is_some() { "/body" } else { "" };
        ApiError::invalid(pointer, fault.to_string())
    })?;
    match store.replay_dead_letter(id.clone(), fact, dry_run).await? {
        Replayed::Judged(verdict) => Ok(verdict),
        Replayed::NotOpen(state) => Err(not_open(state)),
        Replayed::Missing => Err(ApiError::NotFound("dead letter", id)),
    }
}

/// The provider that the subject of a letter names.
pub(crate) fn provider<'a>(letter: &'a DeadLetter, inbound: &InboundSubject) -> &'a str {
    letter
        .subject
        .strip_prefix(&*inbound.0)
        .and_then(|rest| rest.strip_prefix('.'))
        .unwrap_or_default()
}

fn not_open(state: order_store::LetterState) -> ApiError {
    ApiError::AlreadyClosed(format!("the dead letter is already {state}"))
}
