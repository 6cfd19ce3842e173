//! `GET /livez`.

use axum::Json;
use axum::extract::State;

use crate::health::Health;
use crate::http::answer::probe::Probe;
use crate::http::document::problem_docs::problems;

problems!(Internal, Unavailable);

/// Check whether the process is alive
///
/// Always 200 while the process serves, whatever the checks say: a restart wouldn't bring a
/// database back.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "get_liveness",
    tag = "service",
    security(()),
    responses((status = 200, description = "The process is alive.", body = Probe), Problems),
)]
pub(crate) async fn get_liveness(State(health): State<Health>) -> Json<Probe> {
    Json(Probe::of(&health))
}
