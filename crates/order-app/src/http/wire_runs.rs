//! The shape of a run.

use serde::Serialize;
use utoipa::ToSchema;

use super::schemas;
use crate::run_wire;

/// A run of the reconciliation.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Run(run_wire::Run);

impl From<order_store::Run> for Run {
    fn from(run: order_store::Run) -> Self {
        Self(run.into())
    }
}

/// The shape is shared with the command line, which knows nothing of the document: it is said here
/// once more, and a test holds both together.
#[derive(ToSchema)]
#[schema(as = Run)]
#[expect(dead_code, reason = "only there to be described")]
struct Described {
    #[schema(value_type = schemas::RunId)]
    id: String,
    #[schema(value_type = schemas::RunState)]
    state: String,
    /// Whether everything is rolled back: the counts say what would happen.
    dry_run: bool,
    /// Who wanted it.
    #[schema(value_type = schemas::StartedBy)]
    trigger: String,
    #[schema(value_type = schemas::Time)]
    started_at: String,
    #[schema(value_type = Option<schemas::Time>, required)]
    finished_at: Option<String>,
    /// Orders asked about.
    #[schema(minimum = 0)]
    asked: i64,
    /// Orders paid by a payment that only the payment service told of.
    #[schema(minimum = 0)]
    healed: i64,
    /// Orders cancelled.
    #[schema(minimum = 0)]
    cancelled: i64,
    /// Orders answered, and asked about again later.
    #[schema(minimum = 0)]
    pending: i64,
    /// Orders not answered, and asked about again later.
    #[schema(minimum = 0)]
    unknown: i64,
    /// Orders that another path moved meanwhile.
    #[schema(minimum = 0)]
    raced: i64,
    /// Payments whose order had appeared.
    #[schema(minimum = 0)]
    settled: i64,
    /// What people should know: the first 1000.
    #[schema(value_type = Vec<RunFinding>)]
    findings: Vec<RunFinding>,
}

/// Something that a run reports.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only there to be described")]
struct RunFinding {
    #[schema(value_type = schemas::Id)]
    order_id: String,
    #[schema(value_type = schemas::FindingKind)]
    kind: String,
    /// For people.
    detail: String,
}

impl utoipa::PartialSchema for Run {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        Described::schema()
    }
}

impl ToSchema for Run {
    fn name() -> std::borrow::Cow<'static, str> {
        "Run".into()
    }

    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        Described::schemas(schemas);
    }
}
