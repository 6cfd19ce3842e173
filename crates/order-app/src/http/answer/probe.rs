//! The answer of both probes.

use serde::Serialize;
use utoipa::ToSchema;

use crate::health::Health;

/// Whether the service is ready for traffic, and if not, why.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Probe {
    pub(crate) status: Readiness,
    pub(crate) checks: Checks,
    /// Why the service isn't ready; empty if it is.
    pub(crate) reasons: Vec<NotReadyReason>,
}

#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Readiness {
    Ready,
    NotReady,
}

/// What the service depends on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Checks {
    pub(crate) database: CheckState,
    pub(crate) broker: CheckState,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckState {
    Up,
    Down,
}

/// A reason why the service isn't ready.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotReadyReason {
    /// A stable name, for example `held-messages`.
    pub(crate) reason: &'static str,
    /// An explanation for the operator.
    pub(crate) detail: String,
}

impl Probe {
    pub(crate) fn of(health: &Health) -> Self {
        let state = |up| if up { CheckState::Up } else { CheckState::Down };
        Self {
            status: if health.ready() {
                Readiness::Ready
            } else {
                Readiness::NotReady
            },
            checks: Checks {
                database: state(health.database_up()),
                broker: state(health.broker_up()),
            },
            reasons: health
                .not_ready_because()
                .into_iter()
                .map(|(cause, detail)| NotReadyReason {
                    reason: cause.as_str(),
                    detail,
                })
                .collect(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status == Readiness::Ready
    }
}
