//! `POST /v1/dead-letters/{id}/discard`.

use axum::Json;
use axum::extract::State;
use order_store::{Discarded, Store};
use utoipa::ToSchema;

use crate::http::answer::error::ApiError;
use crate::http::document::problem_docs::command_problems;
use crate::http::request::body::{Command, Required};
use crate::http::request::fields::Fields;
use crate::http::request::key::IdempotencyKey;
use crate::http::request::path::DigestPath;
use crate::http::request::query::{Nothing, Params};
use crate::http::request::values;
use crate::wire::DeadLetter;

/// Why a dead letter is discarded.
#[derive(Debug, ToSchema)]
pub(crate) struct DiscardDeadLetter {
    /// Stored with the dead letter.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00]*$")]
    note: String,
}

impl Command for DiscardDeadLetter {
    const MEMBERS: &'static [&'static str] = &["note"];

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            note: fields.required("note", values::reason)?,
        })
    }
}

command_problems!(NotFound, AlreadyClosed);

/// Discard a dead letter
///
/// Discarding it again succeeds.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/discard",
    operation_id = "discard_dead_letter",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath, IdempotencyKey),
    request_body = DiscardDeadLetter,
    responses(
        (status = 200, description = "The discarded dead letter.", body = DeadLetter),
        Problems,
    ),
)]
pub(crate) async fn discard_dead_letter(
    State(store): State<Store>,
    DigestPath(id): DigestPath,
    Params(Nothing): Params<Nothing>,
    Required(command): Required<DiscardDeadLetter>,
) -> Result<Json<DeadLetter>, ApiError> {
    discard(&store, id, command.note).await.map(Json)
}

/// Discards a dead letter.
pub(crate) async fn discard(
    store: &Store,
    id: String,
    note: String,
) -> Result<DeadLetter, ApiError> {
    match store.discard_dead_letter(id.clone(), note).await? {
        Discarded::Discarded(letter) | Discarded::AlreadyThere(letter) => Ok(letter.into()),
        Discarded::NotOpen(letter) => Err(ApiError::AlreadyClosed(format!(
            "the dead letter is already {}",
            letter.state
        ))),
        Discarded::Missing => Err(ApiError::NotFound("dead letter", id)),
    }
}
