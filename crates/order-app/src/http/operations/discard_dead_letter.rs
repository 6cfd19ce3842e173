//! `POST /v1/dead-letters/{id}/discard`.

use axum::Json;
use axum::extract::State;
use order_store::{Discarded, Store};
use utoipa::ToSchema;

use crate::http::body::{Command, Required};
use crate::http::error::ApiError;
use crate::http::fields::Fields;
use crate::http::idempotency::IdempotencyKey;
use crate::http::path::DigestPath;
use crate::http::problem_docs::problems;
use crate::http::query::{Nothing, Params};
use crate::http::values;
use crate::http::wire_ops::DeadLetter;

/// Why a dead letter is given up.
#[derive(Debug, ToSchema)]
pub(crate) struct DiscardDeadLetter {
    /// Kept with the letter.
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

problems!(
    InvalidRequest,
    NotFound,
    AlreadyClosed,
    IdempotencyKeyInUse,
    PayloadTooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    Internal,
    Unavailable,
);

/// Discard a dead letter
///
/// The same discard again is no error.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{id}/discard",
    operation_id = "discard_dead_letter",
    tag = "ops",
    security(("token" = ["ops"])),
    params(DigestPath, IdempotencyKey),
    request_body = DiscardDeadLetter,
    responses(
        (status = 200, description = "The letter, discarded.", body = DeadLetter),
        Problems,
    ),
)]
pub(crate) async fn discard_dead_letter(
    State(store): State<Store>,
    DigestPath(id): DigestPath,
    Params(Nothing): Params<Nothing>,
    Required(command): Required<DiscardDeadLetter>,
) -> Result<Json<DeadLetter>, ApiError> {
    match store.discard_dead_letter(id.clone(), command.note).await? {
        Discarded::Discarded(letter) | Discarded::AlreadyThere(letter) => Ok(Json(letter.into())),
        Discarded::NotOpen(letter) => Err(ApiError::AlreadyClosed(format!(
            "the dead letter is {}",
            letter.state
        ))),
        Discarded::Missing => Err(ApiError::NoSuchLetter(id)),
    }
}
