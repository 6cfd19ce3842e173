//! `GET /livez`.

use axum::Json;
use axum::extract::State;

use super::probe::Probe;
use crate::health::Health;
use crate::http::problem_docs::problems;

problems!(Internal, Unavailable);

/// Ask whether the process serves
///
/// 200 as long as it does, whatever the checks say: a restart would not bring a database back.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "get_liveness",
    tag = "service",
    security(()),
    responses((status = 200, description = "It does.", body = Probe), Problems),
)]
pub(crate) async fn get_liveness(State(health): State<Health>) -> Json<Probe> {
    Json(Probe::of(&health))
}
